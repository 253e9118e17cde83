import java.io.*;
import java.net.*;

/** A server on plain sockets that writes header and body apart: ADDRESS PORT BYTES NODELAY. */
public class Split {
    public static void main(String[] args) throws IOException {
        byte[] body = new byte[Integer.parseInt(args[2])];
        boolean nodelay = args[3].equals("1");
        InetAddress address = InetAddress.getByName(args[0]);
        ServerSocket listener = new ServerSocket(Integer.parseInt(args[1]), 128, address);
        while (true) {
            Socket socket = listener.accept();
            socket.setTcpNoDelay(nodelay);
            new Thread(() -> serve(socket, body)).start();
        }
    }

    static void serve(Socket socket, byte[] body) {
        try (socket) {
            BufferedReader in = new BufferedReader(new InputStreamReader(socket.getInputStream()));
            OutputStream out = socket.getOutputStream();
            String header = "HTTP/1.1 200 OK\r\nServer: split-java\r\nContent-Length: "
                + body.length + "\r\n\r\n";
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                if (line.isEmpty()) {
                    out.write(header.getBytes());
                    out.write(body);
                }
            }
        } catch (IOException gone) {
            // The client went away.
        }
    }
}
