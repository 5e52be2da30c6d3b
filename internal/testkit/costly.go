package testkit

import (
	"flag"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

// Costly begins a test that starts many processes: a script, a page or a job. Each of
// them is in one of two halves by its name, and a run of all tests takes one half, so that people
// wait half as long; .ci/run takes the other one afterwards. A run of named tests, as with
// go test -run ., takes all of these. Costly also skips the test if 40 % of the package's time
// limit are over: the test might not end before the limit, and take all other results with it.
func Costly(t T) {
	test := t.Name()
	if !strings.HasPrefix(test, "TestScripts/") && !strings.HasPrefix(test, "TestBlocks/") {
		test, _, _ = strings.Cut(test, "/") // what a test has begun stays together
	}
	if !named() && !Nightly() && inSecondHalf(test) != second() {
		Skip(t, "go test -run .")
	}
	limit := flag.Lookup("test.timeout").Value.(flag.Getter).Get().(time.Duration)
	if late(time.Since(began), limit) {
		Skip(t, "go test -timeout "+(3*limit).String())
	}
}

// named reports whether the user says which tests or benchmarks to run.
func named() bool {
	return flag.Lookup("test.run").Value.String() != "" || flag.Lookup("test.bench").Value.String() != ""
}

// inSecondHalf divides names. The halves took 383 and 398 s of processor time when they were
// made, each package in unequal parts.
func inSecondHalf(test string) bool {
	h := fnv.New32a()
	h.Write([]byte(test))
	return h.Sum32()>>7&1 == 1
}

// second reports whether the second half has its turn: a commit says which in .ci/run, else chance.
var second = sync.OnceValue(func() bool {
	if seed := Seed(); seed != 0 {
		return seed%2 == 1
	}
	return rand.IntN(2) == 1
})

// late reports whether 40 % of a limit are over. A script of MPI programs had not ended after 41 % of
// go's usual limit beside 70 busy loops. 0 is no limit.
func late(since, limit time.Duration) bool { return limit > 0 && since > limit/10*4 }

var began = time.Now()
