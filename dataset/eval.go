package dataset

import (
	"errors"
	"fmt"
	"math/big"
	"slices"
)

// Limits that keep a hostile spec from costing time or memory. The largest
// built-in expression has 50 characters, the largest value 2^31.
const (
	maxExprLen  = 1000
	maxBits     = 256
	maxExponent = 64
	maxRoot     = 1 << 30
)

// maxWhole bounds every size: sums over arrays then still fit an int64.
var maxWhole = new(big.Int).Lsh(big.NewInt(1), 62)

// An expression is a formula with its text. It computes in fractions: int and float64
// would silently round 25(m+1)^3 q for large classes.
type expression struct {
	text  string
	value formula
}

func parseExpression(text string) (*expression, error) {
	if len(text) > maxExprLen {
		return nil, fmt.Errorf("expression of %d characters is too long (limit %d)", len(text), maxExprLen)
	}
	value, err := parseFormula(text)
	if err != nil {
		return nil, fmt.Errorf("expression %q: %w", text, err)
	}
	return &expression{text, value}, nil
}

// whole evaluates e and demands an integer of at most 2^62 in magnitude.
func (e *expression) whole(params map[string]int64) (int64, error) {
	v, err := e.value(params)
	if err != nil {
		return 0, fmt.Errorf("expression %q: %w", e.text, err)
	}
	if !v.IsInt() {
		return 0, fmt.Errorf("expression %q is %s, not a whole number; use div or ceildiv", e.text, v.RatString())
	}
	if v.Num().CmpAbs(maxWhole) > 0 {
		return 0, fmt.Errorf("expression %q exceeds 2^62", e.text)
	}
	return v.Num().Int64(), nil
}

// size is whole for quantities that cannot be negative.
func (e *expression) size(params map[string]int64) (int64, error) {
	n, err := e.whole(params)
	if err == nil && n < 0 {
		err = fmt.Errorf("expression %q is %d; it must not be negative", e.text, n)
	}
	return n, err
}

// number is a quantity that need not be whole and cannot be negative.
func (e *expression) number(params map[string]int64) (float64, error) {
	v, err := e.value(params)
	if err != nil {
		return 0, fmt.Errorf("expression %q: %w", e.text, err)
	}
	f, _ := v.Float64()
	if f < 0 || f > 1<<62 {
		return 0, fmt.Errorf("expression %q is %g, not between 0 and 2^62", e.text, f)
	}
	return f, nil
}

// share is a fraction from 0 to 1.
func (e *expression) share(params map[string]int64) (float64, error) {
	v, err := e.value(params)
	if err != nil {
		return 0, fmt.Errorf("expression %q: %w", e.text, err)
	}
	if v.Sign() < 0 || v.Cmp(new(big.Rat).SetInt64(1)) > 0 {
		return 0, fmt.Errorf("expression %q is %s, not between 0 and 1", e.text, v.RatString())
	}
	f, _ := v.Float64()
	return f, nil
}

func binary(op string, a, b *big.Rat) (*big.Rat, error) {
	switch op {
	case "+":
		return bounded(a.Add(a, b))
	case "-":
		return bounded(a.Sub(a, b))
	case "*":
		return bounded(a.Mul(a, b))
	case "/":
		if b.Sign() == 0 {
			return nil, errors.New("division by zero")
		}
		return bounded(a.Quo(a, b))
	case "%":
		q, err := floorDiv(a, b)
		if err != nil {
			return nil, err
		}
		return bounded(a.Sub(a, q.Mul(q, b)))
	case "^", "**":
		if !b.IsInt() || b.Sign() < 0 || b.Num().Cmp(big.NewInt(maxExponent)) > 0 {
			return nil, fmt.Errorf("exponent %s is not a whole number from 0 to %d", b.RatString(), maxExponent)
		}
		out := new(big.Rat).SetInt64(1)
		for range b.Num().Int64() {
			var err error
			if out, err = bounded(out.Mul(out, a)); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return nil, fmt.Errorf("operator %q is not allowed in a size", op)
}

// functions of one or more arguments; arity 0 means one or more.
var functions = map[string]struct {
	arity int
	f     func(args []*big.Rat) (*big.Rat, error)
}{
	"div": {2, func(v []*big.Rat) (*big.Rat, error) { return floorDiv(v[0], v[1]) }},
	"ceildiv": {2, func(v []*big.Rat) (*big.Rat, error) {
		q, err := floorDiv(v[0].Neg(v[0]), v[1])
		if err != nil {
			return nil, err
		}
		return q.Neg(q), nil
	}},
	"isqrt": {1, func(v []*big.Rat) (*big.Rat, error) {
		if !v[0].IsInt() || v[0].Sign() < 0 {
			return nil, fmt.Errorf("isqrt of %s", v[0].RatString())
		}
		return new(big.Rat).SetInt(new(big.Int).Sqrt(v[0].Num())), nil
	}},
	"squarest": {1, func(v []*big.Rat) (*big.Rat, error) {
		if !v[0].IsInt() || v[0].Sign() <= 0 || v[0].Num().Cmp(big.NewInt(maxRoot)) > 0 {
			return nil, fmt.Errorf("squarest of %s: want 1 to %d", v[0].RatString(), maxRoot)
		}
		return new(big.Rat).SetInt64(squarest(v[0].Num().Int64())), nil
	}},
	"box": {2, func(v []*big.Rat) (*big.Rat, error) {
		if !v[0].IsInt() || v[0].Sign() <= 0 || v[0].Num().Cmp(big.NewInt(maxRoot)) > 0 {
			return nil, fmt.Errorf("box of %s: want 1 to %d", v[0].RatString(), maxRoot)
		}
		if !v[1].IsInt() || v[1].Sign() < 0 || v[1].Num().Cmp(big.NewInt(2)) > 0 {
			return nil, fmt.Errorf("side %s of a box: want 0, 1 or 2, the longest first", v[1].RatString())
		}
		return new(big.Rat).SetInt64(int64(Box(int(v[0].Num().Int64()))[v[1].Num().Int64()])), nil
	}},
	"max": {0, func(v []*big.Rat) (*big.Rat, error) {
		return slices.MaxFunc(v, (*big.Rat).Cmp), nil
	}},
	"min": {0, func(v []*big.Rat) (*big.Rat, error) {
		return slices.MinFunc(v, (*big.Rat).Cmp), nil
	}},
}

func functionNames() string { return names(functions) }

// floorDiv returns the largest whole number not above a/b, also when one is
// negative. The Fortran sources truncate; sizes are never negative, so the two
// agree where they are used.
func floorDiv(a, b *big.Rat) (*big.Rat, error) {
	if b.Sign() == 0 {
		return nil, errors.New("division by zero")
	}
	q := new(big.Rat).Quo(a, b)
	// Denominators are positive: Euclidean division is floor division.
	return bounded(new(big.Rat).SetInt(new(big.Int).Div(q.Num(), q.Denom())))
}

// squarest returns the largest divisor of n that is not above its square root:
// the short side of the process grid that is as square as possible.
func squarest(n int64) int64 {
	d := new(big.Int).Sqrt(big.NewInt(n)).Int64()
	for n%d != 0 {
		d--
	}
	return d
}

func bounded(v *big.Rat) (*big.Rat, error) {
	if v.Num().BitLen() > maxBits || v.Denom().BitLen() > maxBits {
		return nil, fmt.Errorf("intermediate value has more than %d bits", maxBits)
	}
	return v, nil
}
