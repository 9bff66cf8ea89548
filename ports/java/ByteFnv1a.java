/** byte_fnv1a: 32-bit FNV-1a over the last symbols of each position. docs/spec/addressing.md has the arithmetic. */
public final class ByteFnv1a {
    private ByteFnv1a() {}

    /**
     * Hashes before the remainder, [ids.length, orders.length] row by row: column c at position t has that of the last
     * orders[c] symbols, or 0 where there are fewer.
     */
    public static long[] hashes(long[] ids, int[] orders) {
        for (int order : orders) {
            if (order < 1) throw new IllegalArgumentException("order " + order + " is below 1");
        }
        long[] hashes = new long[Math.multiplyExact(ids.length, orders.length)];
        for (int t = 0; t < ids.length; t++) {
            for (int c = 0; c < orders.length; c++) {
                if (t + 1 < orders[c]) continue; // stays 0, the null row
                int h = 0x811C9DC5 ^ (c + 1);
                for (int i = t + 1 - orders[c]; i <= t; i++) {
                    int symbol = (int) (ids[i] - 3) & 0xFF;
                    h = (h ^ symbol) * 0x01000193;
                }
                hashes[t * orders.length + c] = h == 0 ? 1 : Integer.toUnsignedLong(h);
            }
        }
        return hashes;
    }

    /** Rows of a table of that many entries. */
    public static long[] rows(long[] hashes, long entries) {
        long[] rows = new long[hashes.length];
        for (int i = 0; i < rows.length; i++) rows[i] = hashes[i] % entries;
        return rows;
    }
}
