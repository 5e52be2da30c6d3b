package interval

import (
	"gonum.org/v1/gonum/stat/distuv"
)

// A ShareFit is a share of failures that was counted.
type ShareFit struct {
	Count, Of int     // so many of all
	Value     float64 // over 0 and below 1
	// Low and High hold the true share in 95 of 100 cases or more.
	Low, High float64
}

// fewFailures is how many failures leave the share open: of 30, the interval of 85 % is
// 66 to 96 %.
const fewFailures = 30

// FitShare estimates a share from a count. The value is the mean under Jeffreys' prior,
// (count+½)/(of+1), as the share of a level must be neither 0 nor 1; the interval is the
// exact one of Clopper and Pearson (Biometrika 26(4), 1934).
func FitShare(count, of int) (ShareFit, error) {
	if of < 1 || count < 0 || count > of {
		return ShareFit{}, outOfRange("number of failures", of, "does not tell a share", "run the job until failures are counted, or give the share")
	}
	x, n := float64(count), float64(of)
	f := ShareFit{Count: count, Of: of, Value: (x + 0.5) / (n + 1), High: 1}
	if count > 0 {
		f.Low = distuv.Beta{Alpha: x, Beta: n - x + 1}.Quantile(0.025)
	}
	if count < of {
		f.High = distuv.Beta{Alpha: x + 1, Beta: n - x}.Quantile(0.975)
	}
	return f, nil
}

// Few says that the count leaves the share open.
func (f *ShareFit) Few() bool { return f.Of < fewFailures }
