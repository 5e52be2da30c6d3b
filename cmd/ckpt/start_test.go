package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestStart: what the packages of ckpt allocate before main begins stays below 2 MB. Each command
// and each rank pays for it: tablewriter 1.1 makes room for a cache of 663 KB, with which a start
// took 45 ms in place of 36 where a page fault takes 18 µs.
func TestStart(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("ckpt", "version")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	var traced strings.Builder
	cmd.Stderr = &traced
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	all, packages := 0, 0
	for line := range strings.Lines(traced.String()) {
		var name, unit string
		var at, took float64
		var bytes int
		if n, _ := fmt.Sscanf(line, "init %s @%f ms, %f ms clock, %d %s", &name, &at, &took, &bytes, &unit); n == 5 && unit == "bytes," {
			all, packages = all+bytes, packages+1
		}
	}
	if packages < 50 || all > 2e6 {
		t.Errorf("%d bytes in %d packages:\n%s", all, packages, traced.String())
	}
}
