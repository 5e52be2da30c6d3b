package report_test

import (
	"fmt"
	"os"
	"path/filepath"

	"ckpt/iotrace/analyze"
	"ckpt/iotrace/iotracetest"
	"ckpt/iotrace/report"
)

func ExampleHTML() {
	trace := iotracetest.Builtin("dmtcp", iotracetest.Params{})
	dir, err := os.MkdirTemp("", "report")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	f, err := os.Create(filepath.Join(dir, "dmtcp.html"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	fmt.Println(report.HTML(f, trace, analyze.Analyze(trace, analyze.Options{}), nil, nil))
	// Output: <nil>
}
