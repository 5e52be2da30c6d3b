package analyze_test

import (
	"fmt"

	"ckpt/iotrace/analyze"
	"ckpt/iotrace/iotracetest"
)

func Example() {
	trace := iotracetest.Builtin("minighost", iotracetest.Params{Ranks: 16, Class: "C", Aggregators: 4, Buffer: 4 << 20})
	r := analyze.Analyze(trace, analyze.Options{})
	fmt.Println(r.Files[0].Access, r.Files[0].Spatial)
	for _, b := range r.Files[0].Bursts {
		fmt.Println(b.Kind, b.Op, b.Count, b.Detail, b.Sizes, b.Ranks)
	}
	fmt.Print(r.Pattern)
	// Output:
	// shared strided
	// metadata write 64 strided-simple uniform 16
	// data write 1240 strided-nested uniform 4
	// data read 248 contiguous uniform 4
	// minighost.ckpt (1): ranks 0-12/4 (4)
	//   write 4×64 @64·rank/1024, 5×[write 61×4194304 @64000000·rank+4096, 1×147456]+1024000000, read 61×4194304 @64000000·rank+4096, 1×147456
	// minighost.ckpt (1): ranks all but 0-12/4 (12)
	//   write 4×64 @64·rank/1024
}
