package strace

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"ckpt/iotrace"
	"ckpt/iotrace/iotracetest"
)

// FuzzStrace reads arbitrary bytes as output of strace.
func FuzzStrace(f *testing.F) {
	for _, b := range iotracetest.Files(f, "*.strace") {
		// The beginning has the loader and the runtime, the end the program.
		f.Add(b[:min(len(b), 2000)])
		f.Add(b[max(0, len(b)-3000):])
	}
	f.Add([]byte(stamped(`open("/f", O_RDWR|O_TRUNC) = 3`, `clone(flags=CLONE_VM <unfinished ...>`, `12 write(3, "x", 5) = 5`, `<... clone resumed>) = 12`,
		`sendfile(4</a>, 3, [1000] => [1050], 50) = 50`, `close_range(3, 5, 0) = 0`, `12 +++ superseded by execve in pid 10 +++`)))
	f.Fuzz(func(t *testing.T, b []byte) {
		tr, rep, err := Read(bytes.NewReader(b), iotrace.Options{Lenient: true})
		var fe *iotrace.FormatError
		if err != nil {
			if !errors.As(err, &fe) || fe.Line < 1 {
				t.Fatal(err)
			}
			return
		}
		if err := iotracetest.Valid(tr); err != nil {
			t.Fatal(err)
		}
		again, _, err := Read(bytes.NewReader(b), iotrace.Options{})
		if err == nil && (rep.Cut != nil || len(again.Events) != len(tr.Events)) {
			t.Fatalf("%d events, lenient %d, %+v", len(again.Events), len(tr.Events), rep)
		}
		if _, _, err := Read(bytes.NewReader(b), iotrace.Options{Strict: true}); err == nil && rep.Unknown > 0 {
			t.Fatalf("strict: no error, but %+v", rep)
		}
	})
}

// BenchmarkRead reads a program that writes, and 16 of them with the paths of -y.
// The figure to look at is the processor time: others may be using the machine.
func BenchmarkRead(b *testing.B) {
	const lines = 20_000
	plain := []byte(stamped(`open("/scratch/store/image", O_RDWR|O_CREAT|O_TRUNC) = 3`))
	one := []byte("10 1700000001.000000 write(3, \"\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\"..., 4096) = 4096 <0.000010>\n")
	plain = append(plain, bytes.Repeat(one, lines)...)
	var paths []byte
	for i := range lines {
		paths = fmt.Appendf(paths, "%d  %.6f pwrite64(3</scratch/store/rank-%d.img>, \"\"..., 4096, %d) = 4096 <0.000010>\n",
			1000+i%16, 1700000001+float64(i)/1e5, i%16, i/16*4096)
	}
	for name, text := range map[string][]byte{"plain": plain, "paths": paths} {
		b.Run(name, func(b *testing.B) {
			start := iotracetest.ProcessorTime()
			for b.Loop() {
				if _, _, err := Read(bytes.NewReader(text), iotrace.Options{Events: lines}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(iotracetest.ProcessorTime()-start)/float64(b.N)/lines, "cpu-ns/line")
		})
	}
}
