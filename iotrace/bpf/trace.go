//go:build linux && amd64

package bpf

import (
	"bufio"
	"fmt"
	"io"

	"ckpt/iotrace"
	"ckpt/iotrace/strace"
)

// WriteText writes the records that Start wrote as the text of strace. The environment is
// not in it, but for variables that name ranks.
func (x *Recording) WriteText(w io.Writer, records io.Reader) error {
	_, err := x.convert(w, records)
	return err
}

func (x *Recording) convert(w io.Writer, records io.Reader) (*converter, error) {
	c := newConverter(w, records)
	c.begin, c.zero, c.last = x.begin, x.zero, x.start
	return c, c.run()
}

// Import makes a trace of the records that Start wrote. Finish must have been called.
func (x *Recording) Import(records io.Reader, o iotrace.Options) (*iotrace.Trace, *iotrace.Report, error) {
	o.Lenient = true // calls are in the order in which they took effect, not of their begin
	r, w := io.Pipe()
	var c *converter
	done := make(chan error, 1)
	go func() {
		var err error
		c, err = x.convert(w, bufio.NewReaderSize(records, 1<<20))
		w.CloseWithError(err)
		done <- err
	}()
	t, rep, err := strace.Read(r, o)
	r.Close() // ends the converter if the importer did not read all
	if broken := <-done; err == nil && broken != nil {
		err = broken
	}
	if err != nil {
		return nil, rep, err
	}
	rep.Format, rep.Lines = iotrace.FormatKernel, 0
	t.Source = "eBPF"
	for i, w := range t.Warnings {
		if text := reworded(w); text != "" {
			t.Warnings[i].Text = text
		}
	}
	t.Warnings = append(t.Warnings, x.warnings(c)...)
	return t, rep, nil
}

// reworded is the text of a warning whose remedy is another one without strace.
func reworded(w iotrace.Warning) string {
	switch w.Code {
	case "unknown-descriptor":
		return fmt.Sprintf("%d reads and writes of %d bytes on descriptors that came from elsewhere, as through a socket, are missing: record with strace", w.Count, w.Bytes)
	case "aio-unlisted", "aio-unknown":
		return fmt.Sprintf("%d asynchronous requests (io_submit) of %d bytes are incomplete: one call had more than %d, or they began before the trace", w.Count, w.Bytes, maxListed)
	case "io_uring":
		return fmt.Sprintf("%d requests of io_uring are missing: the calls do not show their files and bytes. Have the program use other calls: fio with --ioengine=libaio or psync, programs of libuv with UV_USE_IO_URING=0; others may do so by themselves after sysctl kernel.io_uring_disabled=2 (Linux 6.6)", w.Count)
	case "io_uring-sqpoll":
		return fmt.Sprintf("%d queues of io_uring had the kernel poll for requests (SQPOLL): these need no calls, and cannot even be counted. Have the program use other calls", w.Count)
	case "not-understood":
		return fmt.Sprintf("%d records of calls were not understood: the calls are missing", w.Count)
	}
	return ""
}

// warnings says what the records lack.
func (x *Recording) warnings(c *converter) (out []iotrace.Warning) {
	add := func(code string, count int64, text string) {
		if count > 0 {
			out = append(out, iotrace.Warning{Code: code, Count: count, Text: fmt.Sprintf(text, count)})
		}
	}
	add("lost", x.lost, "%d records of calls were lost: the program was faster than the recorder. Leave a processor free for it, or record with strace")
	add("incomplete", c.missing, "%d calls are missing: their paths or lists could not be read from the memory of the program. Record with strace")
	add("32-bit", c.short, "%d programs of 32 bits ran, whose calls eBPF does not see: record them with strace")
	if x.err != nil {
		out = append(out, iotrace.Warning{Code: "cut", Count: 1, Text: fmt.Sprintf("the records end early: %v", x.err)})
	}
	return out
}
