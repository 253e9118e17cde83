import com.sun.net.httpserver.HttpServer;
import java.io.*;
import java.net.*;
import java.util.concurrent.Executors;

/**
 * Keeps a part of its heap full, and allocates for each request: ADDRESS PORT KEPT ALLOCATED, bytes.
 */
public class Collects {
    static final int PIECE = 1 << 16;
    /** Small objects, which a collection has to follow one by one. */
    static Object[] kept;
    static volatile byte[] last;

    public static void main(String[] args) throws IOException {
        InetSocketAddress address = new InetSocketAddress(args[0], Integer.parseInt(args[1]));
        kept = new Object[Integer.parseInt(args[2]) / 64];
        for (int at = 0; at < kept.length; at++) {
            kept[at] = new byte[40];
        }
        System.gc();
        int pieces = Integer.parseInt(args[3]) / PIECE;
        HttpServer server = HttpServer.create(address, 0);
        server.setExecutor(Executors.newFixedThreadPool(4));
        server.createContext("/", exchange -> {
            for (int at = 0; at < pieces; at++) {
                last = new byte[PIECE];
            }
            exchange.getRequestBody().readAllBytes();
            exchange.sendResponseHeaders(200, 500);
            try (OutputStream out = exchange.getResponseBody()) {
                out.write(new byte[500]);
            }
        });
        server.start();
    }
}
