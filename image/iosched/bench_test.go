package iosched

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// BenchmarkPolicies adds and serves requests, with so many waiting all the time:
// of 16 applications with 4 ranks each, strided, in an order mixed up.
func BenchmarkPolicies(b *testing.B) {
	for _, policy := range Names() {
		for _, waiting := range []int{64, 1 << 17} {
			b.Run(fmt.Sprintf("%s/%d", policy, waiting), func(b *testing.B) { benchmark(b, policy, waiting) })
		}
	}
}

func benchmark(b *testing.B, policy string, waiting int) {
	p, err := New(policy, Options{Rate: unitRate})
	if err != nil {
		b.Fatal(err)
	}
	const apps = 16
	c := NewController("disk", p)
	var names [apps]string
	for i := range names {
		names[i] = fmt.Sprint("app", i)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	var next [apps]int64
	now := time.Duration(0)
	add := func(r *Request) {
		i := rnd.IntN(apps)
		n := next[i] ^ 3 // somewhat out of order
		next[i]++
		r.App, r.File, r.Rank, r.Offset, r.Bytes, r.Op = names[i], names[i], int(n%4), n*block, block, Op(i%2)
		if err := c.Add(now, r); err != nil {
			b.Fatal(err)
		}
	}
	requests := make([]Request, waiting)
	for i := range requests {
		add(&requests[i])
	}
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; {
		grants, wake := c.Next(now)
		if len(grants) == 0 {
			now = wake
			continue
		}
		for _, g := range grants {
			began := now
			now += 600 * time.Microsecond
			c.Done(began, now, g)
			n++
		}
		for _, g := range grants {
			add(g.Request)
		}
	}
}

// String names the verb in the failures of tests.
func (v Verb) String() string {
	return [...]string{GrantTurn: "grant", RevokeTurn: "revoke", EvictTurn: "evict"}[v]
}
