# frozen_string_literal: true

# byte_fnv1a: 32-bit FNV-1a over the last symbols of each position. docs/spec/addressing.md has the arithmetic.
module Engram
  # Hashes before the remainder, a row for each position: column c has that of the last orders[c] symbols, or 0 where
  # there are fewer. Raises ArgumentError where an order is below 1.
  def self.byte_fnv1a(ids, orders)
    raise ArgumentError, "orders must be integers from 1 on" unless orders.all? { |n| n.is_a?(Integer) && n >= 1 }

    symbols = ids.map { |id| (id - 3) & 0xFF }
    hashes = Array.new(ids.length) { Array.new(orders.length, 0) }
    orders.each_with_index do |order, c|
      (order - 1).upto(ids.length - 1) do |t| # before them stands 0, the null row
        h = 0x811C9DC5 ^ (c + 1)
        i = t - order
        h = ((h ^ symbols[i]) * 0x01000193) & 0xFFFFFFFF while (i += 1) <= t
        hashes[t][c] = h.zero? ? 1 : h
      end
    end
    hashes
  end

  # Rows of a table of that many entries, from hashes.
  def self.rows(hashes, entries)
    hashes.map { |columns| columns.map { |hash| hash % entries } }
  end
end
