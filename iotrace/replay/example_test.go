package replay_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"ckpt/iotrace/iotracetest"
	"ckpt/iotrace/replay"
)

// What would a checkpoint of MiniGhost cost here, with twice the ranks?
func ExampleRun() {
	dir, err := os.MkdirTemp("", "replay")
	if err != nil {
		log.Fatal(err)
	}
	defer os.Remove(dir)
	trace := iotracetest.Builtin("minighost", iotracetest.Params{Class: "A", Ranks: 4})
	res, err := replay.Run(context.Background(), trace, replay.Options{Dir: dir, Ranks: 8})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Traced.Processes, "ranks wrote", res.Traced.BytesWritten, "bytes,", res.Replayed.Processes, "write", res.Replayed.BytesWritten)
	// Output: 4 ranks wrote 20001024 bytes, 8 write 40002048
}
