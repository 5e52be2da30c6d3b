package pattern

import (
	"math"
	"math/cmplx"
	"slices"

	"gonum.org/v1/gonum/dsp/fourier"
	"gonum.org/v1/gonum/stat"
)

// Period measures how regularly I/O comes and goes, from the bandwidth of the job over
// time, as FTIO does (Tarraf, Bandet, Boito, Pallez, Wolf: Capturing Periodic I/O
// Using Frequency Techniques, IPDPS 2024; github.com/tuda-parallel/FTIO).
//
// The power spectrum of the bandwidth has a candidate where the power is three
// standard deviations above the mean and its deviation at least 0.8 of the
// largest; multiples of a candidate are left out. More than two candidates mean
// that nothing repeats. The autocorrelation then measures the period better than
// the spectrum, whose frequencies are whole fractions of the time seen, and finds
// it where the bursts are so short that the spectrum is flat.
//
// Both see only samples of the bandwidth, and in them a beat if requests come at equal
// intervals. So phases of I/O, with silence in between, must also follow each other
// after that time. Requests without such silences have no period.
//
// Under jitter the spectrum has no single candidate, and the autocorrelation fades. The
// intervals between phases then show the period, if they deviate by at most a quarter
// of their mean, or the phases by a fifth from an even grid; it is the mean interval.
// Where they do not, the spectrum counts only if nine tenths of the phases recur after
// its period and four periods were seen: it alone finds two unrelated periods, too.
//
// From ten phases on, tests find jitter of up to 15 %, uniform or normal, in 98 of 100
// traces, and refuse as many of those without a period. With fewer than nine phases
// only nearly even intervals are a period, and the others are unknown.
type Period struct {
	Periodic bool `json:"periodic"` // Confidence is at least one half
	// Enough is set if there are phases enough to tell: nine. With fewer, I/O may be
	// periodic although Periodic is not set.
	Enough bool    `json:"enough_phases"`
	Period float64 `json:"period_s"` // from phase to phase; 0 if not periodic
	// Confidence is the mean of three numbers from 0 to 1, times Recurrence: Spectrum,
	// how far the candidate stands out among the others; Autocorrelation, how evenly
	// spaced its peaks are, 1 - σ/mean; Agreement of the two, 1 - the relative
	// difference of the periods. Without a candidate in the spectrum it is
	// Autocorrelation times the height of the first peak, or that height for a single
	// peak, times Recurrence. If the intervals between phases show a period, it is at
	// least 1 - half the share of the allowed deviation that they take.
	Confidence      float64 `json:"confidence"`
	Spectrum        float64 `json:"spectrum_confidence"`
	Autocorrelation float64 `json:"autocorrelation_confidence"`
	Agreement       float64 `json:"agreement"`
	// Recurrence is the share of phases that are followed by another one after the
	// period, scaled so that 0 is chance.
	Recurrence float64 `json:"recurrence"`
	// Deviation is the standard deviation of the times from the start of a phase to
	// the next, in means: about 1 for starts at random.
	Deviation float64 `json:"interval_deviation"`
}

const (
	outlier      = 3.0  // standard deviations
	tolerance    = 0.8  // of the largest deviation
	peakHeight   = 0.15 // of the autocorrelation; FTIO's
	periodic     = 0.5
	recurring    = 0.9 // least Recurrence: two unrelated periods have 0.6 to 0.8
	leastPeriods = 4   // least number of periods seen; fewer may be alike by chance
	doubtful     = 0.4 // largest confidence in what fails one of these
	certain      = 0.9 // confidence that the intervals do not outweigh
	aside        = 0.2 // difference of two values of one period
	peakDistance = 0.3 // distance of a peak from its expected place, in periods
)

// Find analyses a signal of samples width seconds apart, and checks the result
// against the phases.
func Find(signal []float64, width float64, v *Visits) Period {
	p := candidate(signal, width)
	p.Recurrence = v.recurrence(p.Period)
	p.Confidence *= p.Recurrence
	mean, deviation, confidence := v.intervals()
	p.Deviation = deviation
	starts := v.starts()
	n := len(starts)
	p.Enough = n >= enough
	if !p.Enough || p.Recurrence < recurring || p.Period > (starts[n-1]-starts[0])/leastPeriods {
		p.Confidence = min(p.Confidence, doubtful)
	}
	if confidence > 0 && (p.Confidence < certain || math.Abs(p.Period-mean) < aside*mean) {
		p.Period, p.Confidence = mean, max(p.Confidence, confidence)
	}
	if p.Periodic = p.Confidence >= periodic; !p.Periodic {
		p.Period = 0
	}
	return p
}

// candidate is the period that a signal shows.
func candidate(signal []float64, width float64) Period {
	var p Period
	n := len(signal)
	var mean float64
	for _, x := range signal {
		mean += x / float64(n)
	}
	// Pad with zeros, so that the autocorrelation does not wrap around.
	padded := make([]float64, 2*n)
	var variance float64
	for i, x := range signal {
		padded[i] = x - mean
		variance += padded[i] * padded[i]
	}
	if !(variance > 1e-12*mean*mean*float64(n)) || math.IsInf(variance, 0) || width <= 0 {
		return p
	}
	k, strength := dominant(padded[:n])
	acf := autocorrelation(padded, variance)
	var expected float64
	if k > 0 {
		expected = float64(n) / float64(k)
		p.Spectrum = strength
	} else if expected = firstPeak(acf[:n]); expected == 0 {
		return p
	}
	peaks := peaks(acf[:n], expected)
	if len(peaks) == 0 {
		if k > 0 {
			p.Period, p.Confidence = expected*width, p.Spectrum/3
		}
		return p
	}
	apart := make([]float64, len(peaks))
	for i, at := range peaks {
		apart[i] = float64(at)
		if i > 0 {
			apart[i] -= float64(peaks[i-1])
		}
	}
	distance, deviation := stat.PopMeanStdDev(apart, nil)
	p.Autocorrelation = max(0, 1-ratio(deviation, distance))
	height := max(0, min(1, acf[peaks[0]]))
	if len(peaks) == 1 { // no other peak to compare with
		p.Autocorrelation = height
	}
	p.Period = distance * width
	if k > 0 {
		p.Agreement = max(0, 1-math.Abs(distance-expected)/expected)
		p.Confidence = (p.Spectrum + p.Autocorrelation + p.Agreement) / 3
	} else {
		p.Confidence = p.Autocorrelation
		if len(peaks) > 1 {
			// Normalise by the overlap of the signal with its shifted copy.
			p.Confidence *= min(1, height*float64(n)/float64(n-peaks[0]))
		}
	}
	return p
}

// dominant returns the frequency that stands out, in periods of a signal without mean,
// and how far it does, from 0 to 1; else 0.
func dominant(signal []float64) (k int, strength float64) {
	n := len(signal)
	coefficients := fourier.NewFFT(n).Coefficients(nil, signal)[1:]
	power := make([]float64, len(coefficients))
	var sum float64
	for i, c := range coefficients {
		a := cmplx.Abs(c)
		power[i] = a * a
		sum += power[i]
	}
	for i := range power {
		power[i] = ratio(power[i], sum)
	}
	mean, deviation := stat.PopMeanStdDev(power, nil)
	var largest float64
	z := power
	for i := range z {
		z[i] = ratio(z[i]-mean, deviation)
		largest = max(largest, z[i])
	}
	if largest < outlier {
		return 0, 0
	}
	var found []int
	harmonic := func(k int) bool {
		return slices.ContainsFunc(found, func(f int) bool { return k%f == 0 })
	}
	for i, x := range z {
		if x >= outlier && x >= tolerance*largest && !harmonic(i+1) {
			found = append(found, i+1)
		}
	}
	best := found[0]
	for _, f := range found {
		if z[f-1] > z[best-1] {
			best = f
		}
	}
	// One period is not a repetition.
	if len(found) > 2 || best < 2 {
		return 0, 0
	}
	var near, all float64
	for i, x := range z {
		if (i+1)%best == 0 && i+1 != best { // its harmonics
			continue
		}
		if x >= tolerance*largest {
			near += x
		}
		if x >= outlier {
			all += x
		}
	}
	return best, (ratio(z[best-1], near) + ratio(z[best-1], all)) / 2
}

// autocorrelation of a signal padded with as many zeros; 1 for lag 0.
func autocorrelation(padded []float64, variance float64) []float64 {
	n := len(padded)
	fft := fourier.NewFFT(n)
	c := fft.Coefficients(nil, padded)
	for i := range c {
		c[i] = complex(real(c[i])*real(c[i])+imag(c[i])*imag(c[i]), 0)
	}
	out := fft.Sequence(nil, c)
	for i := range out {
		out[i] = ratio(out[i], variance*float64(n))
	}
	return out
}

// firstPeak returns the lag of the highest peak behind the first uncorrelated lag, or
// 0 if there is no peak.
func firstPeak(acf []float64) float64 {
	i := slices.IndexFunc(acf, func(x float64) bool { return x <= 0 })
	if i < 0 {
		return 0
	}
	best := 0
	for j := i; j < len(acf); j++ {
		if acf[j] >= peakHeight && (best == 0 || acf[j] > acf[best]) {
			best = j
		}
	}
	return float64(best)
}

// peaks returns the lags of the peaks of the autocorrelation, each about one period
// after the one before.
func peaks(acf []float64, expected float64) []int {
	var out []int
	at := 0
	for {
		from, to := float64(at)+expected*(1-peakDistance), float64(at)+expected*(1+peakDistance)
		i, j := int(math.Ceil(from)), min(int(to)+1, len(acf))
		if j-i < 1 {
			return out
		}
		best := i
		for k := i; k < j; k++ {
			if acf[k] > acf[best] {
				best = k
			}
		}
		if acf[best] < peakHeight || best <= at {
			return out
		}
		out = append(out, best)
		at = best
	}
}

// A visit is a time in which the job does I/O: a phase between silences.
type visit struct {
	start, end, bytes float64
}

const (
	maxVisits   = 1 << 14 // that are kept, from the first on; there are fewer samples
	LeastVisits = 3       // needed to show a period: two intervals
	weighty     = 0.1     // of the bytes of the largest; smaller visits do not count
	jitter      = 0.2     // of the time between phases: how early or late one may be
)

// Visits finds the phases of a job from the requests in their order.
type Visits struct {
	list []visit
}

// Len returns the number of phases.
func (v *Visits) Len() int { return len(v.list) }

// Add adds a request. A silence of gap seconds ends a phase.
func (v *Visits) Add(start, end, bytes, gap float64) {
	end = max(start, end)
	if n := len(v.list); n > 0 && start-v.list[n-1].end <= gap {
		last := &v.list[n-1]
		last.end = max(last.end, end)
		last.bytes += bytes
	} else if n < maxVisits {
		v.list = append(v.list, visit{start, end, bytes})
	}
}

// recurrence measures how reliably another phase follows a phase after a period: 1 if
// it always does, 0 if it does as often as by chance. The spectrum alone cannot tell:
// it also shows the beat between equally spaced requests and the samples of the
// bandwidth, and peaks for random requests.
func (v *Visits) recurrence(period float64) float64 {
	starts := v.starts()
	n := len(starts)
	if n < LeastVisits || !(period > 0) {
		return 0
	}
	between := (starts[n-1] - starts[0]) / float64(n-1)
	near := jitter * min(period, between)
	var followed, all float64
	for _, at := range starts {
		if at+period > starts[n-1]+near {
			break
		}
		all++
		if i, _ := slices.BinarySearch(starts, at+period-near); i < n && starts[i] <= at+period+near {
			followed++
		}
	}
	if all < LeastVisits-1 {
		return 0
	}
	chance := 1 - math.Exp(-2*near/between)
	return max(0, (followed/all-chance)/(1-chance))
}
