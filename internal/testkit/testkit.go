// Package testkit is what tests of several packages share: how long they may take, what they
// need of the machine, and what every file system passes.
package testkit

import (
	"flag"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
)

// Nightly reports whether the long forms of tests run: CKPT_NIGHTLY is set.
func Nightly() bool { return os.Getenv("CKPT_NIGHTLY") != "" }

// Parallel has more tests run at a time than there are processors, unless the user says how
// many: they wait for processes most of the time. TestMain calls it.
func Parallel() {
	flag.Parse()
	n := flag.Lookup("test.parallel").Value
	if n.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		_ = n.Set(strconv.Itoa(4 * runtime.GOMAXPROCS(0)))
	}
}

// Sample has rapid draw so many cases of each property in the usual form, unless the user
// says how many, and collects garbage less often. TestMain calls it.
func Sample(checks int) {
	if Nightly() {
		return
	}
	debug.SetGCPercent(400)
	flag.Parse()
	if f := flag.Lookup("rapid.checks"); f != nil && f.Value.String() == f.DefValue {
		_ = f.Value.Set(strconv.Itoa(checks))
	}
}
