package predict

import "fmt"

// Objects is what a checkpoint in a storage of objects takes; empty for files.
type Objects struct {
	Requests *Requests `json:"object_requests,omitempty"`
	Bill     *Bill     `json:"bill,omitempty"` // nil if no price is known
}

// Requests are those of a checkpoint, by how they are paid.
type Requests struct {
	Puts int64 `json:"put_requests"`
	Gets int64 `json:"get_requests"`
}

// A Bill prices a checkpoint.
type Bill struct {
	Currency   string  `json:"currency"`
	Checkpoint float64 `json:"checkpoint_price"` // its requests
	Month      float64 `json:"month_price"`      // what is stored, kept for a month
}

// Lines describes them, each line with its label.
func (o Objects) Lines() (lines [][2]string) {
	if r := o.Requests; r != nil {
		lines = append(lines, [2]string{"requests", fmt.Sprintf("%d PUT, %d GET; repeated ones come on top", r.Puts, r.Gets)})
	}
	if b := o.Bill; b != nil {
		lines = append(lines, [2]string{"price", fmt.Sprintf("%.3g %s for the requests, %.3g %s for a month of what is stored; at list prices",
			b.Checkpoint, b.Currency, b.Month, b.Currency)})
	}
	return lines
}

// MeanObjects is what a checkpoint of the first n takes on average, and the price of keeping the
// first one and so many that follow.
func (s *Stored) MeanObjects(n, keep int) (o Objects) {
	full, next := s.FullObjects, s.NextObjects
	if full.Requests == nil || next.Requests == nil {
		return o
	}
	mean := func(first, others float64) float64 { return (first + float64(n-1)*others) / float64(max(1, n)) }
	a, b := full.Requests, next.Requests
	o.Requests = &Requests{whole(mean(float64(a.Puts), float64(b.Puts))), whole(mean(float64(a.Gets), float64(b.Gets)))}
	if full.Bill != nil && next.Bill != nil {
		o.Bill = &Bill{full.Bill.Currency, mean(full.Bill.Checkpoint, next.Bill.Checkpoint), full.Bill.Month + float64(keep)*next.Bill.Month}
	}
	return o
}

// Kept is what each of several checkpoints takes, and the price of keeping all.
func (o Objects) Kept(n int) Objects {
	if o.Bill != nil {
		all := *o.Bill
		all.Month *= float64(n)
		o.Bill = &all
	}
	return o
}
