package ui

import (
	"fmt"
	"strings"

	"ckpt/coordinator"
	"ckpt/image/nodes"
)

// storageLevel says where a checkpoint is.
func storageLevel(ev *coordinator.LevelEvent) string {
	switch ev.Level {
	case nodes.Draining:
		return fmt.Sprintf("checkpoint %d: copying %s MiB into the store", ev.Number, MiB(ev.Bytes))
	case nodes.Stored:
		return fmt.Sprintf("checkpoint %d is in the store: %s MiB copied in %s", ev.Number, MiB(ev.Bytes), Seconds(ev.Seconds))
	case nodes.Reclaimed:
		return fmt.Sprintf("checkpoint %d is not on the nodes any more", ev.Number)
	case nodes.Protected:
		return fmt.Sprintf("checkpoint %d is on the nodes, protected", ev.Number)
	}
	return fmt.Sprintf("checkpoint %d is on the nodes", ev.Number)
}

// areOrIs names checkpoints and the verb after them.
func areOrIs(numbers []int) string {
	if len(numbers) == 1 {
		return fmt.Sprintf("checkpoint %d is", numbers[0])
	}
	var words []string
	for _, n := range numbers {
		words = append(words, fmt.Sprint(n))
	}
	return "checkpoints " + strings.Join(words, " and ") + " are"
}

// recoveredFrom says where ranks have found their parts of a checkpoint.
func recoveredFrom(ev *coordinator.SourcesEvent) string {
	var parts []string
	for _, p := range []struct {
		ranks int
		where string
	}{{ev.Local, "on its node"}, {ev.Copied, "copied from another node"}, {ev.Built, "rebuilt from parities"}, {ev.Stored, "in the store"}} {
		where := p.where
		if p.ranks != 1 && where == "on its node" {
			where = "on their nodes"
		}
		if p.ranks > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", Count(p.ranks, "rank"), where))
		}
	}
	return fmt.Sprintf("checkpoint %d was found by %s", ev.Number, strings.Join(parts, ", "))
}
