package race

import (
	"flag"
	"runtime/debug"
	"strconv"
)

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
