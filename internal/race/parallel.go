package race

import (
	"flag"
	"runtime"
	"strconv"
)

// Parallel has more tests run at a time than there are processors, unless the user says how
// many: they wait for processes most of the time. TestMain calls it.
func Parallel() {
	flag.Parse()
	n := flag.Lookup("test.parallel").Value
	if n.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		_ = n.Set(strconv.Itoa(4 * runtime.GOMAXPROCS(0)))
	}
}
