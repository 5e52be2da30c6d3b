package msglog_test

import (
	"context"
	"fmt"
	"os"

	"ckpt/coordinator/msglog"
	"ckpt/coordinator/protocol/channel"
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
	// message 18 from rank 1, 5 bytes
	// message 19 from rank 3 was what a receive from any source got
}

// run logs what rank 2 receives, dies, and replays what came after its checkpoint.
func run(dir string) error {
	ctx, id := context.Background(), msglog.ID{Job: "bt.S.4", Rank: 2}
	log, rec, err := msglog.Open(vfs.OS{}, dir, id, msglog.Options{})
	if err != nil {
		return err
	}
	fmt.Println("the log begins with frame", rec.Next)
	var covered msglog.LSN // by the checkpoint
	for i, f := range []channel.Frame{
		{Kind: channel.Received, Peer: 1, Message: channel.Message{Seq: 17}},
		{Kind: channel.Received, Peer: 1, Message: channel.Message{Seq: 18, Data: []byte("hello")}},
		{Kind: channel.Determined, Peer: 3, Number: 41, Message: channel.Message{Seq: 19}},
	} {
		lsn, err := log.Append(f)
		if err != nil {
			return err
		}
		if err := log.Wait(ctx, lsn); err != nil {
			return err
		}
		if i == 0 { // a checkpoint is taken
			covered = lsn
		}
	}
	if err := log.Close(); err != nil {
		return err
	}

	r, _, err := msglog.OpenReader(vfs.OS{}, dir, id, covered+1)
	if err != nil {
		return err
	}
	defer r.Close()
	for {
		f, err := r.Next()
		if err != nil { // io.EOF
			return nil
		}
		if f.Kind == channel.Determined {
			fmt.Printf("message %d from rank %d was what a receive from any source got\n", f.Message.Seq, f.Peer)
			continue
		}
		fmt.Printf("message %d from rank %d, %d bytes\n", f.Message.Seq, f.Peer, len(f.Message.Data))
	}
}
