import com.sun.net.httpserver.HttpServer;
import java.io.*;
import java.net.*;
import java.util.concurrent.Executors;

/** The JDK's own HTTP server, as its documentation shows it: ADDRESS PORT BYTES. */
public class Echo {
    public static void main(String[] args) throws IOException {
        byte[] body = new byte[Integer.parseInt(args[2])];
        InetSocketAddress address = new InetSocketAddress(args[0], Integer.parseInt(args[1]));
        HttpServer server = HttpServer.create(address, 0);
        server.setExecutor(Executors.newFixedThreadPool(4));
        server.createContext("/", exchange -> {
            exchange.getRequestBody().readAllBytes();
            exchange.sendResponseHeaders(200, body.length);
            try (OutputStream out = exchange.getResponseBody()) {
                out.write(body);
            }
        });
        server.start();
    }
}
