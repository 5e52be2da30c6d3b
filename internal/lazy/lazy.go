// Package lazy puts off what a process may never need. Each rank of a job is a process of its
// own: what all of them do at their start costs more than what one of them does later.
package lazy

import (
	"regexp"
	"sync"
)

// Regexp returns a function that compiles a regular expression when it is first called, and
// panics like regexp.MustCompile. A test compiles all expressions of the module.
func Regexp(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}
