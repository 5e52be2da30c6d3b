package interval

import (
	"errors"
	"math"
	"testing"
	"time"
)

// TestNeed solves what storage is needed, and asks the models what it wastes.
func TestNeed(t *testing.T) {
	year := 365 * 24 * time.Hour
	for _, c := range []Need{
		{Waste: 0.05, Bytes: 100 << 40, Node: 512 << 30, MTBF: 5 * year / 200},
		{Waste: 0.01, Bytes: 100 << 40, Node: 512 << 30, MTBF: 5 * year / 200},
		{Waste: 0.2, Bytes: 1 << 30, Node: 1 << 28, MTBF: time.Hour, Downtime: time.Minute},
		{Waste: 0.5, Bytes: 1 << 50, Node: 1 << 40, MTBF: 10 * time.Minute},
	} {
		c.Share, c.Slots, c.Redundancy = 0.85, 2, 1
		alone, err := c.StoreAlone()
		if err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		cost := time.Duration(c.Bytes / alone.StoreRate * 1e9)
		m := Model{Cost: cost, Restart: cost, MTBF: c.MTBF, Downtime: c.Downtime}
		best, err := m.Optimum()
		if err != nil {
			t.Fatal(err)
		}
		waste, err := m.Waste(best.Exact)
		if err != nil || math.Abs(waste/c.Waste-1) > 1e-6 || math.Abs(alone.Interval/best.Exact.Seconds()-1) > 1e-6 {
			t.Errorf("%+v: a store of %g bytes/s wastes %g, interval %g s of %v: %v", c, alone.StoreRate, waste, alone.Interval, best.Exact, err)
		}
		nodes, err := c.NodesFirst()
		if err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		if math.Abs(nodes.Waste/c.Waste-1) > 0.02 || nodes.Waste > c.Waste*(1+1e-9) {
			t.Errorf("%+v: nodes first waste %g", c, nodes.Waste)
		}
		if nodes.StoreRate >= alone.StoreRate || nodes.Drain > nodes.Period {
			t.Errorf("%+v: nodes first %+v, alone %+v", c, nodes, alone)
		}
	}
}

// To first order a store that halves the waste is four times as fast, and one for nodes that
// fail half as often half as fast.
func TestNeedFirstOrder(t *testing.T) {
	rate := func(waste float64, mtbf time.Duration) float64 {
		n := Need{Waste: waste, Bytes: 1e12, Node: 1e10, MTBF: mtbf}
		of, err := n.StoreAlone()
		if err != nil {
			t.Fatal(err)
		}
		return of.StoreRate
	}
	if f := rate(0.005, 1000*time.Hour) / rate(0.01, 1000*time.Hour); math.Abs(f-4) > 0.05 {
		t.Errorf("half the waste needs %g times the rate", f)
	}
	if f := rate(0.01, 1000*time.Hour) / rate(0.01, 2000*time.Hour); math.Abs(f-2) > 1e-3 {
		t.Errorf("half the failures need a rate %g times lower", f)
	}
}

func TestNeedRefuses(t *testing.T) {
	good := Need{Waste: 0.05, Bytes: 1e12, Node: 1e10, MTBF: time.Hour, Share: 0.85, Slots: 2}
	for name, change := range map[string]func(*Need){
		"waste":           func(n *Need) { n.Waste = 1 },
		"checkpoint size": func(n *Need) { n.Bytes = 0 },
		"MTBF":            func(n *Need) { n.MTBF = 0 },
		"downtime":        func(n *Need) { n.Downtime = -1 },
	} {
		n := good
		change(&n)
		_, err := n.StoreAlone()
		if r := new(RangeError); !errors.As(err, &r) || r.Quantity != name {
			t.Errorf("%s: %v", name, err)
		}
	}
	good.Downtime = 10 * time.Minute
	for _, of := range []func(*Need) (Needed, error){(*Need).StoreAlone, (*Need).NodesFirst} {
		if _, err := of(&good); err == nil {
			t.Error("a downtime of a sixth of the time wastes 5 %")
		}
	}
}
