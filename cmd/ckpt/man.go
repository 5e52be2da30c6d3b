package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func newManCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "Write manual pages into a directory",
		Example: "  ckpt man /usr/local/share/man/man1",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return doc.GenManTree(cmd.Root(), &doc.GenManHeader{Title: "CKPT", Section: "1", Source: "ckpt"}, args[0])
		},
	}
}
