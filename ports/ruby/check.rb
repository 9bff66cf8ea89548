# frozen_string_literal: true

# Checks the port against vectors, or hashes a stream of ids.
#
#   check FILE     the vectors as JSON; exit status 1 on a mismatch
#   hash ORDERS    int32 ids on standard input, int64 hashes on standard output, both little-endian, in pieces

require "json"
require_relative "byte_fnv1a"

PIECE = 65_536

def check(path)
  cases = JSON.parse(File.read(path))["cases"]
  mismatches = cases.each_index.reject do |number|
    one = cases[number]
    hashes = Engram.byte_fnv1a(one["ids"], one["orders"])
    hashes == one["hashes"] && Engram.rows(hashes, one["entries"]) == one["rows"]
  end
  mismatches.each { |number| puts "mismatch in case #{number}" }
  puts "cases #{cases.length}, mismatches #{mismatches.length}"
  exit mismatches.empty?
end

def hash_stream(list)
  orders = list.split(",").map(&:to_i)
  ids = $stdin.binmode.read.unpack("l<*")
  $stdout.binmode
  taken = 0.0
  0.step(ids.length - 1, PIECE) do |from|
    history = [from, orders.max - 1].min
    piece = ids[from - history, history + PIECE]
    start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    hashes = Engram.byte_fnv1a(piece, orders)
    taken += Process.clock_gettime(Process::CLOCK_MONOTONIC) - start
    $stdout.write(hashes.drop(history).flatten.pack("q<*"))
  end
  warn format("seconds %.6f", taken)
end

case ARGV
in ["check", path] then check(path)
in ["hash", list] then hash_stream(list)
else abort "usage: check FILE | hash ORDERS"
end
