package msglog_test

import (
	"context"
	"fmt"
	"os"

	"ckpt/coordinator/msglog"
	"ckpt/internal/vfs"
)

func Example() {
	tmp, err := os.MkdirTemp("", "msglog")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(tmp)
	if err := run(tmp + "/rank-2"); err != nil {
		fmt.Println(err)
	}
	// Output:
	// the log begins with frame 1
	// 2: message 18 from rank 1, 5 bytes
	// 4: order 19 from rank 3, 0 bytes
}

// run logs what rank 2 receives, dies, and replays what came after checkpoint 7.
func run(dir string) error {
	ctx, id := context.Background(), msglog.ID{Job: "bt.S.4", Rank: 2}
	log, rec, err := msglog.Open(vfs.OS{}, dir, id, msglog.Options{})
	if err != nil {
		return err
	}
	fmt.Println("the log begins with frame", rec.Next)
	for _, f := range []msglog.Frame{
		{Kind: msglog.Mark, Peer: -1, Seq: 7},
		{Kind: msglog.Message, Peer: 1, Seq: 18, Order: 40, Payload: []byte("hello")},
		{Kind: msglog.Output, Peer: -1, Seq: 3},
		{Kind: msglog.Order, Peer: 3, Seq: 19, Order: 41, AnySource: true},
	} {
		lsn, err := log.Append(f)
		if err != nil {
			return err
		}
		if err := log.Wait(ctx, lsn); err != nil {
			return err
		}
	}
	if err := log.Close(); err != nil {
		return err
	}

	r, _, err := msglog.OpenReader(vfs.OS{}, dir, id, 0)
	if err != nil {
		return err
	}
	defer r.Close()
	for marked := false; ; {
		lsn, f, err := r.Next()
		if err != nil { // io.EOF
			return nil
		}
		if marked && f.Kind != msglog.Output {
			fmt.Printf("%d: %v %d from rank %d, %d bytes\n", lsn, f.Kind, f.Seq, f.Peer, len(f.Payload))
		}
		marked = marked || f.Kind == msglog.Mark && f.Seq == 7
	}
}
