// Package container writes and reads the files of a checkpoint: each holds regions
// of the memory of one or more ranks, cut into extents that are packed and checked
// one by one. No other code creates, writes, completes or checks such a file.
//
// # Format
//
// All numbers are little-endian. Header, extents, index and trailer begin at
// multiples of 4096 so that they can be read and written around the page cache.
//
//	+--------------------+ 0
//	| header      4 KiB  |  job, checkpoint, rank, node, kind; CRC-32C
//	+--------------------+ 4096
//	| payload            |  extents, each padded with zeros to 4 KiB;
//	|   extent           |  no gaps, no overlap; CRC-32C in the index
//	|   extent ...       |
//	+--------------------+ index offset
//	| index              |  blake3-256 of the header block
//	|   regions          |  name, zone, element type, rank, size
//	|   external files   |  path, blake3-256 of that file's index
//	|   extents          |  64 bytes each
//	|   zeros to 4 KiB   |
//	+--------------------+ file length - 4096
//	| trailer     4 KiB  |  where the index is; its CRC-32C and blake3-256;
//	+--------------------+  the length of the file; CRC-32C
//
// The digest of the index is thus a digest of the header and, through the
// checksums of the extents, of the whole. It is in the manifest, so that a file
// cannot pass for another. docs/FORMAT.md has every field.
package container
