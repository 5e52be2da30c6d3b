// Package wording is how users write to programs, and programs to users. It reads durations,
// sizes and shares, and YAML files. Libraries name settings and commands in their texts without
// knowing what a program calls them:
//
//	wording.Sprintf("{np} %d: array %q belongs to one rank; {restart %s} keeps it", n, name, job)
//
// The program says once how it names them. Only formats are read: the arguments, which may
// come from anywhere, appear as they are.
package wording

import (
	"fmt"
	"regexp"
	"strings"
)

var named = regexp.MustCompile(`\{[a-z][^{}]*\}`)

// setting and command are the names that the program gives; without them the braces stay.
var setting, command func(string) string

// Use sets how the program names a setting, like group-size, and a command, like restart JOB.
// It is called before any text is made.
func Use(settingName, commandName func(string) string) { setting, command = settingName, commandName }

// Sprintf is fmt.Sprintf with a format that names settings and commands in braces.
func Sprintf(format string, args ...any) string {
	if setting != nil {
		format = named.ReplaceAllStringFunc(format, func(s string) string {
			s = s[1 : len(s)-1]
			if strings.Contains(s, " ") {
				return command(s)
			}
			return setting(s)
		})
	}
	return fmt.Sprintf(format, args...)
}
