package source_test

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"ckpt/zones/dmtcptest"
	"ckpt/zones/source"
)

func ExampleRead() {
	im := dmtcptest.Job(2, dmtcptest.Options{Seed: 1}).Images[1]
	file := bytes.NewReader(im.Bytes())

	p, err := source.ReadImage(context.Background(), im.FileName(), file, file.Size())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.Name, "rank", p.Rank, "of", p.Group)
	for _, a := range p.Areas {
		if a.Name == "[heap]" {
			fmt.Printf("heap: %d KiB mapped, %d KiB stored\n", a.Bytes()>>10, a.Stored>>10)
		}
	}
	// Output:
	// app rank 1 of 7f0100-40000-66a25cc1#1
	// heap: 132 KiB mapped, 92 KiB stored
}

func ExampleScanner() {
	im := dmtcptest.Job(1, dmtcptest.Options{Seed: 1}).Images[0]
	file := bytes.NewReader(im.Bytes())

	s, err := source.NewImageScanner(im.FileName(), file, file.Size())
	if err != nil {
		fmt.Println(err)
		return
	}
	headers, data := 0, int64(0)
	for {
		rec, err := s.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		headers += len(rec.Raw)
		data += rec.Data // skipped, since nobody calls s.Read
	}
	fmt.Println(int64(headers)+data == im.Size())
	// Output:
	// true
}
