import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Locale;
import java.util.Scanner;
import java.util.stream.Stream;

/**
 * Checks the port against vectors, or hashes a stream of ids.
 *
 * <p>check FILE: the vectors as numbers, which `python -m ports` writes from the JSON; exit status 1 on a mismatch.
 *
 * <p>hash ORDERS: int32 ids on standard input, int64 hashes on standard output, both little-endian, in
 * pieces.
 */
final class Check {
    private static final int PIECE = 65536;

    private Check() {}

    private static long[] numbers(Scanner from, int count) {
        long[] found = new long[count];
        for (int i = 0; i < count; i++) found[i] = from.nextLong();
        return found;
    }

    private static int check(Path path) throws IOException {
        try (Scanner from = new Scanner(Files.newBufferedReader(path))) {
            int cases = from.nextInt();
            int mismatches = 0;
            for (int number = 0; number < cases; number++) {
                int length = from.nextInt();
                int columns = from.nextInt();
                long entries = from.nextLong();
                long[] ids = numbers(from, length);
                int[] orders = Arrays.stream(numbers(from, columns)).mapToInt(Math::toIntExact).toArray();
                long[] hashes = numbers(from, length * columns);
                long[] rows = numbers(from, length * columns);
                long[] found = ByteFnv1a.hashes(ids, orders);
                if (!Arrays.equals(found, hashes) || !Arrays.equals(ByteFnv1a.rows(found, entries), rows)) {
                    System.out.println("mismatch in case " + number);
                    mismatches++;
                }
            }
            System.out.println("cases " + cases + ", mismatches " + mismatches);
            return Math.min(mismatches, 1);
        }
    }

    private static void hash(String list) throws IOException {
        int[] orders = Stream.of(list.split(",")).mapToInt(Integer::parseInt).toArray();
        ByteBuffer given = ByteBuffer.wrap(System.in.readAllBytes()).order(ByteOrder.LITTLE_ENDIAN);
        long[] ids = new long[given.capacity() / 4];
        for (int t = 0; t < ids.length; t++) ids[t] = given.getInt();
        int longest = Arrays.stream(orders).max().getAsInt();
        long taken = 0;
        try (OutputStream out = System.out) {
            for (int from = 0; from < ids.length; from += PIECE) {
                int history = Math.min(from, longest - 1);
                long[] piece = Arrays.copyOfRange(ids, from - history, Math.min(from + PIECE, ids.length));
                long start = System.nanoTime();
                long[] hashes = ByteFnv1a.hashes(piece, orders);
                taken += System.nanoTime() - start;
                ByteBuffer bytes = ByteBuffer.allocate(8 * hashes.length).order(ByteOrder.LITTLE_ENDIAN);
                bytes.asLongBuffer().put(hashes);
                out.write(bytes.array(), 8 * history * orders.length, 8 * (piece.length - history) * orders.length);
            }
        }
        System.err.printf(Locale.ROOT, "seconds %.6f%n", taken / 1e9);
    }

    public static void main(String[] words) throws IOException {
        if (words.length == 2 && words[0].equals("check")) {
            System.exit(check(Path.of(words[1])));
        } else if (words.length == 2 && words[0].equals("hash")) {
            hash(words[1]);
        } else {
            System.err.println("usage: check FILE | hash ORDERS");
            System.exit(2);
        }
    }
}
