// Package codec makes extents of memory smaller on their way to storage and
// restores them.
//
// An extent is a whole number of pages, at most 64 MiB, of one element type. It
// is stored in one of five ways, its ID, after an optional Filter. A writer has
// one Encoder for each goroutine, a reader one Decoder:
//
//	enc := codec.NewEncoder(codec.UseAuto, codec.Options{Conditions: codec.Conditions{Bandwidth: 800e6, Processors: 2}})
//	x := enc.Encode(extent, zones.Float64)
//	// store x.ID, x.Filter and x.Data
//
//	var dec codec.Decoder
//	err := dec.Decode(extent, data, id, filter)
//
// # Promises
//
//   - Decode restores what Encode was given, bit for bit, NaNs included.
//   - The stored bytes are smaller than the extent by at least a page, or they are
//     the extent itself, without a copy. An extent of zeros stores nothing.
//   - Decode fills dst exactly or returns an error, for any input. It does not
//     panic, and allocates no more than the length of dst and a
//     constant. It does not notice every damage: that is for checksums.
//   - Apart from UseAuto, which learns and looks at the clock, the same extent
//     under the same setting gives the same bytes, whatever came before.
//   - UseAuto spends next to nothing where storage is too fast, or the data too
//     random, for compression to pay.
//
// # Format
//
// The filters group the bytes of an extent by their place in an element, so
// that signs, exponents and the zeros of small integers stand together, where a
// compressor finds them, apart from the low bits of the mantissas, which are
// noise. With elements of w bytes (Shuffle4: 4, Shuffle8: 8) and n = length/w,
// byte k of element i moves from w*i+k to n*k+i. For w = 4, n = 3:
//
//	memory    a0 a1 a2 a3   b0 b1 b2 b3   c0 c1 c2 c3
//	filtered  a0 b0 c0   a1 b1 c1   a2 b2 c2   a3 b3 c3
//	          plane 0    plane 1    plane 2    plane 3
//
// The elements are little-endian, so plane w-1 holds signs and exponents. A
// filter says nothing about the type: memory that is just bytes has one too if
// that helps. The filtered bytes, or those of the extent, are stored as:
//
//	0 raw   as they are, never filtered
//	1 zero  not at all, never filtered
//	2 s2    one block of S2, which begins with the length (an extension of the
//	        Snappy block format)
//	3 zstd  frames of Zstandard (RFC 8878), each with its content size and none
//	        empty, one after the other. This encoder writes a frame for each
//	        plane, or a single one, without checksums.
//	4 gzip  one member (RFC 1952) and nothing behind it
//
// The numbers of IDs and filters are part of the image format.
package codec
