import com.sun.net.httpserver.HttpServer;
import java.io.*;
import java.net.*;
import java.util.concurrent.Executors;

/** Sleeps for each request, with a monitor in its hands or without: ADDRESS PORT MILLISECONDS hold|sleep. */
public class Waits {
    static final Object monitor = new Object();

    public static void main(String[] args) throws IOException {
        InetSocketAddress address = new InetSocketAddress(args[0], Integer.parseInt(args[1]));
        long milliseconds = Long.parseLong(args[2]);
        boolean holds = args[3].equals("hold");
        HttpServer server = HttpServer.create(address, 0);
        server.setExecutor(Executors.newCachedThreadPool());
        server.createContext("/", exchange -> {
            exchange.getRequestBody().readAllBytes();
            try {
                if (holds) {
                    synchronized (monitor) {
                        Thread.sleep(milliseconds);
                    }
                } else {
                    Thread.sleep(milliseconds);
                }
            } catch (InterruptedException stopped) {
                throw new IOException(stopped);
            }
            exchange.sendResponseHeaders(200, 500);
            try (OutputStream out = exchange.getResponseBody()) {
                out.write(new byte[500]);
            }
        });
        server.start();
    }
}
