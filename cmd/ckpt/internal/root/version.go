package root

import (
	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
)

func newVersionCommand(g *ui.Globals) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Hidden:  true, // --version says the same
		Short:   "Print the version",
		Long:    "Print the version, the commit and its date, the version of Go, and the version of the image format.",
		Example: "  ckpt version --json",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return printVersion(g) },
	}
}

func printVersion(g *ui.Globals) error {
	b := ui.ThisBuild()
	if g.JSON {
		return g.PrintJSON(b)
	}
	return g.Printf("ckpt %s\n%s %s, image format %d\n", b, b.Go, b.Platform, b.Format)
}
