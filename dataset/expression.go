package dataset

import (
	"ckpt/zones/global"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"text/scanner"

	yaml "go.yaml.in/yaml/v3"
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

// UnmarshalYAML reads an expression, or a number.
func (e *expression) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.ScalarNode {
		return fmt.Errorf("line %d: want an expression", n.Line)
	}
	parsed, err := parseExpression(n.Value)
	if err != nil {
		return fmt.Errorf("line %d: %w", n.Line, err)
	}
	*e = *parsed
	return nil
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

// share is a fraction from 0 to 1; it is 1 if there is no expression.
func (e *expression) share(params map[string]int64) (float64, error) {
	if e == nil {
		return 1, nil
	}
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
		n, err := within(v[0], 1, maxRoot)
		if err != nil {
			return nil, fmt.Errorf("squarest of %w", err)
		}
		return new(big.Rat).SetInt64(squarest(n)), nil
	}},
	"box": {2, func(v []*big.Rat) (*big.Rat, error) {
		n, err := within(v[0], 1, maxRoot)
		if err != nil {
			return nil, fmt.Errorf("box of %w", err)
		}
		side, err := within(v[1], 0, 2)
		if err != nil {
			return nil, fmt.Errorf("side of a box, the longest first: %w", err)
		}
		return new(big.Rat).SetInt64(int64(global.Grid(int(n), 3)[side])), nil
	}},
	"dims":        {3, func(v []*big.Rat) (*big.Rat, error) { return gridSide(v, global.Dims) }},
	"openmpidims": {3, func(v []*big.Rat) (*big.Rat, error) { return gridSide(v, global.OpenMPIDims) }},
	"max": {0, func(v []*big.Rat) (*big.Rat, error) {
		return slices.MaxFunc(v, (*big.Rat).Cmp), nil
	}},
	"min": {0, func(v []*big.Rat) (*big.Rat, error) {
		return slices.MinFunc(v, (*big.Rat).Cmp), nil
	}},
}

// gridSide is side v[2] of the grid of v[0] ranks with v[1] axes.
func gridSide(v []*big.Rat, grid func(np, axes int) []int) (*big.Rat, error) {
	n, err := within(v[0], 1, maxProcs)
	if err != nil {
		return nil, fmt.Errorf("ranks of a grid: %w", err)
	}
	axes, err := within(v[1], 1, global.MaxAxes)
	if err != nil {
		return nil, fmt.Errorf("axes of a grid: %w", err)
	}
	side, err := within(v[2], 0, axes-1)
	if err != nil {
		return nil, fmt.Errorf("side of a grid, the longest first: %w", err)
	}
	return new(big.Rat).SetInt64(int64(grid(int(n), int(axes))[side])), nil
}

// within returns a whole number between two others.
func within(v *big.Rat, least, most int64) (int64, error) {
	if !v.IsInt() || !v.Num().IsInt64() || v.Num().Int64() < least || v.Num().Int64() > most {
		return 0, fmt.Errorf("%s: want %d to %d", v.RatString(), least, most)
	}
	return v.Num().Int64(), nil
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

// A formula computes the value of a parsed expression.
type formula func(params map[string]int64) (*big.Rat, error)

// operators by how tightly they bind; the sign of a number lies between * and **.
var operators = map[string]int{"+": 1, "-": 1, "*": 2, "/": 2, "%": 2, "^": 4, "**": 4}

const sign = 3

type formulaParser struct {
	scanner.Scanner
	kind  rune
	token string
}

func parseFormula(text string) (formula, error) {
	var p formulaParser
	p.Init(strings.NewReader(text))
	p.Mode = scanner.ScanIdents | scanner.ScanFloats
	p.Error = func(*scanner.Scanner, string) {} // the token is refused where it is used
	p.next()
	f, err := p.expression(1)
	if err == nil && p.kind != scanner.EOF {
		err = p.unexpected()
	}
	return f, err
}

func (p *formulaParser) next() {
	p.kind = p.Scan()
	p.token = p.TokenText()
	if p.kind == '*' && p.Peek() == '*' {
		p.Next()
		p.token = "**"
	}
}

// take goes past token, if it is the next one.
func (p *formulaParser) take(token string) bool {
	if p.token != token {
		return false
	}
	p.next()
	return true
}

func (p *formulaParser) unexpected() error {
	token := strconv.Quote(p.token)
	if p.kind == scanner.EOF {
		token = "end"
	}
	return errors.New("unexpected " + token + ": only numbers, parameters, + - * / % **, and the functions " + functionNames() + " may be used")
}

// expression reads operands joined by operators that bind at least as tightly as least.
func (p *formulaParser) expression(least int) (formula, error) {
	left, err := p.operand()
	for err == nil && operators[p.token] >= least {
		op := p.token
		p.next()
		var right formula
		right, err = p.expression(min(operators[op]+1, sign)) // 2**3**2 is 2**9
		left = joined(op, left, right)
	}
	return left, err
}

func joined(op string, left, right formula) formula {
	return func(params map[string]int64) (*big.Rat, error) {
		a, err := left(params)
		if err != nil {
			return nil, err
		}
		b, err := right(params)
		if err != nil {
			return nil, err
		}
		return binary(op, a, b)
	}
}

func (p *formulaParser) operand() (formula, error) {
	switch token := p.token; {
	case p.kind == scanner.Int || p.kind == scanner.Float:
		v, err := number(p.kind, token)
		p.next()
		return func(map[string]int64) (*big.Rat, error) { return new(big.Rat).Set(v), nil }, err
	case p.kind == scanner.Ident:
		p.next()
		if p.take("(") {
			return p.call(token)
		}
		return func(params map[string]int64) (*big.Rat, error) {
			v, ok := params[token]
			if !ok {
				return nil, fmt.Errorf("parameter %q is not defined here (known: %s)", token, names(params))
			}
			return new(big.Rat).SetInt64(v), nil
		}, nil
	case p.take("+"):
		return p.expression(sign)
	case p.take("-"):
		f, err := p.expression(sign)
		return joined("-", func(map[string]int64) (*big.Rat, error) { return new(big.Rat), nil }, f), err
	case p.take("("):
		f, err := p.expression(1)
		if err == nil && !p.take(")") {
			err = p.unexpected()
		}
		return f, err
	}
	return nil, p.unexpected()
}

// number returns what the user wrote: 0.1 means one tenth, not its binary neighbour.
func number(kind rune, token string) (*big.Rat, error) {
	digits := token
	if kind == scanner.Float { // the shortest decimal that reads back as the same float64
		f, err := strconv.ParseFloat(token, 64)
		if err != nil {
			return nil, fmt.Errorf("%s is not a number", token)
		}
		digits = strconv.FormatFloat(f, 'g', -1, 64)
	}
	v, ok := new(big.Rat).SetString(digits)
	if !ok {
		return nil, fmt.Errorf("%s is not a number", token)
	}
	return bounded(v)
}

// call reads the arguments of a function behind its "(".
func (p *formulaParser) call(name string) (formula, error) {
	fn, ok := functions[name]
	if !ok {
		return nil, fmt.Errorf("function %q is unknown (known: %s)", name, functionNames())
	}
	var arguments []formula
	for more := !p.take(")"); more; {
		f, err := p.expression(1)
		if err != nil {
			return nil, err
		}
		arguments = append(arguments, f)
		if more = p.take(","); !more && !p.take(")") {
			return nil, p.unexpected()
		}
	}
	if len(arguments) == 0 || fn.arity != 0 && len(arguments) != fn.arity {
		return nil, fmt.Errorf("function %s does not take %d arguments", name, len(arguments))
	}
	return func(params map[string]int64) (*big.Rat, error) {
		values := make([]*big.Rat, len(arguments))
		for i, f := range arguments {
			var err error
			if values[i], err = f(params); err != nil {
				return nil, err
			}
		}
		return fn.f(values)
	}, nil
}
