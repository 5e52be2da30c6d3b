package main

import (
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
)

// A build says which ckpt this is.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`   // "" if it was built outside a repository
	Date     string `json:"date"`     // of the commit
	Modified bool   `json:"modified"` // built from files that were not committed
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Format   int    `json:"image_format"`
}

// thisBuild reads what the compiler has noted.
func thisBuild() build {
	b := build{Version: "devel", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Format: 1}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if s := info.Main.Version; s != "" && s != "(devel)" {
		b.Version = strings.TrimPrefix(s, "v")
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Date = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// committed returns the time of the commit, the zero time if it is not known.
func (b *build) committed() time.Time {
	t, err := time.Parse(time.RFC3339, b.Date)
	if err != nil {
		return time.Time{}
	}
	return t
}

func newVersionCommand(g *ui.Globals) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Long:    "Print the version, the commit and its date, the version of Go, and the version of the image format.",
		Example: "  ckpt version --json",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return printVersion(g) },
	}
}

func printVersion(g *ui.Globals) error {
	b := thisBuild()
	if g.JSON {
		return g.PrintJSON(b)
	}
	commit := "commit unknown"
	if b.Commit != "" {
		commit = "commit " + b.Commit[:min(12, len(b.Commit))]
		if t := b.committed(); !t.IsZero() {
			commit += " of " + t.UTC().Format(time.DateOnly)
		}
		if b.Modified {
			commit += ", modified"
		}
	}
	return g.Printf("ckpt %s, %s\n%s %s, image format %d\n", b.Version, commit, b.Go, b.Platform, b.Format)
}
