package ui

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// dirFlags are the flags that take a directory.
var dirFlags = []string{"store", "dir", "local", "measure", "storage"}

// CheckPlaces refuses flags and arguments that name another host or an object store where a
// directory belongs, before anything is made.
func CheckPlaces(cmd *cobra.Command, args []string) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if err == nil && slices.Contains(dirFlags, f.Name) {
			err = checkPlace("--"+f.Name+" ", f.Value.String())
		}
	})
	if n := cmd.ArgsLenAtDash(); n >= 0 {
		args = args[:n]
	}
	for i, kind := range placeholder.FindAllString(argumentsOf(cmd), -1) {
		if err == nil && kind == "DIR" && i < len(args) {
			err = checkPlace("", args[i])
		}
	}
	return err
}

// checkPlace refuses what no directory here is called: a name with a colon before its first
// slash, as rsync has it. The text before the name says where it stands.
func checkPlace(before, name string) error {
	service, rest, colon := strings.Cut(name, ":")
	if !colon || strings.Contains(service, "/") {
		return nil
	}
	fix := "name a directory of a mounted file system; while no job runs, rsync or rclone copies a store elsewhere"
	switch {
	case service == "file":
		fix = "name the directory itself: /" + strings.TrimLeft(rest, "/")
	case !strings.HasPrefix(rest, "//"):
		fix += "; a directory of this name is ./" + name
	}
	return BadUsage(fmt.Sprintf("%s%s is no directory of this machine", before, name), fix)
}

// defaultStore is the store of commands without --store.
func defaultStore() string {
	if dir := os.Getenv("CKPT_STORE"); dir != "" {
		return dir
	}
	return "./ckpt-store"
}
