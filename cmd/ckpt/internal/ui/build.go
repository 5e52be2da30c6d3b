package ui

import (
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// A Build says which ckpt this is.
type Build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`   // "" if it was built outside a repository
	Date     string `json:"date"`     // of the commit
	Modified bool   `json:"modified"` // built from files that were not committed
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Format   int    `json:"image_format"`
}

// ThisBuild reads what the compiler has noted.
func ThisBuild() Build {
	b := Build{Version: "devel", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Format: 1}
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

// Committed returns the time of the commit, the zero time if it is not known.
func (b Build) Committed() time.Time {
	t, err := time.Parse(time.RFC3339, b.Date)
	if err != nil {
		return time.Time{}
	}
	return t
}

// String is the version, the commit and its date.
func (b Build) String() string {
	commit := "commit unknown"
	if b.Commit != "" {
		commit = "commit " + b.Commit[:min(12, len(b.Commit))]
		if t := b.Committed(); !t.IsZero() {
			commit += " of " + t.UTC().Format(time.DateOnly)
		}
		if b.Modified {
			commit += ", modified"
		}
	}
	return b.Version + ", " + commit
}
