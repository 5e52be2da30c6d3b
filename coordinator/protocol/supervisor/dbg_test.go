package supervisor

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"ckpt/coordinator/protocol"
)

func TestDbg(t *testing.T) {
	seed, _ := strconv.Atoi(os.Getenv("DBG"))
	dbg = func(w *world, a Action) {
		s := fmt.Sprintf("%v g%d %T %+v", w.now, a.Group, a.Action, a.Action)
		if b, ok := a.Action.(protocol.Broadcast); ok {
			s = fmt.Sprintf("%v g%d broadcast %v n%d i%d %v", w.now, a.Group, b.Message.Kind, b.Message.Number, b.Message.Iter, b.Message.Counts)
		}
		if b, ok := a.Action.(protocol.Send); ok {
			s = fmt.Sprintf("%v g%d send %d %v n%d i%d %v", w.now, a.Group, b.Message.Rank, b.Message.Kind, b.Message.Number, b.Message.Iter, b.Message.Counts)
		}
		if len(s) > 300 {
			s = s[:300]
		}
		fmt.Println(s)
	}
	w, text := simulate(uint64(seed), &mutant{})
	fmt.Printf("%+v\n", w.cfg.Schedule)
	fmt.Println(w.groupRanks(), w.log, text, w.cfg.Storing, w.async)
	if w.sup != nil {
		for _, g := range w.sup.groups {
			fmt.Printf("%d %s agreed %d since %d slot %v live %v asks %v rest %v known %d base %d\n", g.id, g.co.Phase(), g.agreed, g.since, g.slot, g.live, g.asks, g.rest, len(g.known), w.sup.base[g.id])
		}
		fmt.Printf("stop %+v recovery %+v\n", w.sup.stop, w.sup.recovery)
	}
}
