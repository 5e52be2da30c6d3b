package mix

import "testing"

// TestShortest runs the ten applications under wsjf, which the thesis announces
// (section 6.2): the sum of the flow times is below that of mlf, every application
// gains, and the disk is nearly as busy. Without idling for synchronous processes, the
// disk seeks for each request.
func TestShortest(t *testing.T) {
	fifo, mlf, wsjf := mixed(t, policy("fifo")), mixed(t, policy("mlf")), mixed(t, policy("wsjf"))
	without := mixed(t, policy("wsjf", "idle-wait"))
	t.Logf("ΣF %.0f s under fifo, %.0f s under mlf, %.0f s under wsjf; makespan %.1f s, × %.2f; %.1f s without idling", fifo.SumFlow, mlf.SumFlow, wsjf.SumFlow, wsjf.Makespan, wsjf.Makespan/optimum, without.Makespan)
	if wsjf.SumFlow >= mlf.SumFlow || wsjf.Makespan > 1.4*optimum || without.Makespan < 5*wsjf.Makespan {
		t.Errorf("ΣF %v s, under mlf %v s; makespan %v s, optimum %v; without idling %v", wsjf.SumFlow, mlf.SumFlow, wsjf.Makespan, optimum, without.Makespan)
	}
	for i, a := range wsjf.Apps {
		if a.Flow >= fifo.Apps[i].Flow {
			t.Errorf("%s takes %v s under wsjf, %v s under fifo", a.Name, a.Flow, fifo.Apps[i].Flow)
		}
	}
}
