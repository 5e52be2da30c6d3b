package codec_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

	"ckpt/image/codec"
	"ckpt/zones"
)

func Example() {
	// 1 MiB of a smooth field.
	var extent []byte
	for i := range 1 << 17 {
		extent = binary.LittleEndian.AppendUint64(extent, math.Float64bits(math.Sin(float64(i)/1e4)))
	}

	enc := codec.NewEncoder(codec.UseZstd, codec.Options{})
	x := enc.Encode(extent, zones.Float64)
	fmt.Println(x.ID, x.Filter, len(x.Data) < len(extent)*3/4)

	var dec codec.Decoder
	restored := make([]byte, len(extent))
	if err := dec.Decode(restored, x.Data, x.ID, x.Filter); err != nil {
		fmt.Println(err)
	}
	fmt.Println(bytes.Equal(restored, extent))

	err := dec.Decode(restored[4096:], x.Data, x.ID, x.Filter)
	fmt.Println("another length is refused:", err != nil)
	// Output:
	// zstd shuffle8 true
	// true
	// another length is refused: true
}
