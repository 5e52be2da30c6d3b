package dataset

import (
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"
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

// An expression is a parsed formula. expr-lang parses the text, so that users know the
// syntax, but the evaluation is here: expr's own machine computes in int and float64,
// which would silently round 25(m+1)^3 q for large classes, and has loops over ranges,
// which a size does not need.
type expression struct {
	text string
	root ast.Node
}

func parseExpression(text string) (*expression, error) {
	if len(text) > maxExprLen {
		return nil, fmt.Errorf("expression of %d characters is too long (limit %d)", len(text), maxExprLen)
	}
	tree, err := parser.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("expression %q: %s", text, oneLine(err.Error()))
	}
	return &expression{text, tree.Node}, nil
}

// whole evaluates e and demands an integer of at most 2^62 in magnitude.
func (e *expression) whole(params map[string]int64) (int64, error) {
	v, err := eval(e.root, params)
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
	v, err := eval(e.root, params)
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
	v, err := eval(e.root, params)
	if err != nil {
		return 0, fmt.Errorf("expression %q: %w", e.text, err)
	}
	if v.Sign() < 0 || v.Cmp(new(big.Rat).SetInt64(1)) > 0 {
		return 0, fmt.Errorf("expression %q is %s, not between 0 and 1", e.text, v.RatString())
	}
	f, _ := v.Float64()
	return f, nil
}

func eval(n ast.Node, params map[string]int64) (*big.Rat, error) {
	switch n := n.(type) {
	case *ast.IntegerNode:
		return new(big.Rat).SetInt64(int64(n.Value)), nil
	case *ast.FloatNode:
		// The shortest decimal that reads back as the same float64 is what the
		// user wrote: 0.1 means one tenth, not its binary neighbour.
		v, ok := new(big.Rat).SetString(strconv.FormatFloat(n.Value, 'g', -1, 64))
		if !ok {
			return nil, fmt.Errorf("%v is not a number", n.Value)
		}
		return bounded(v)
	case *ast.IdentifierNode:
		v, ok := params[n.Value]
		if !ok {
			return nil, fmt.Errorf("parameter %q is not defined here (known: %s)", n.Value, names(params))
		}
		return new(big.Rat).SetInt64(v), nil
	case *ast.UnaryNode:
		v, err := eval(n.Node, params)
		if err != nil {
			return nil, err
		}
		switch n.Operator {
		case "-":
			return v.Neg(v), nil
		case "+":
			return v, nil
		}
		return nil, fmt.Errorf("operator %q is not allowed in a size", n.Operator)
	case *ast.BinaryNode:
		a, err := eval(n.Left, params)
		if err != nil {
			return nil, err
		}
		b, err := eval(n.Right, params)
		if err != nil {
			return nil, err
		}
		return binary(n.Operator, a, b)
	case *ast.CallNode:
		if id, ok := n.Callee.(*ast.IdentifierNode); ok {
			return call(id.Value, n.Arguments, params)
		}
	case *ast.BuiltinNode: // max and min are builtins of expr
		return call(n.Name, n.Arguments, params)
	}
	return nil, errors.New("only numbers, parameters, + - * / % **, and the functions " + functionNames() + " may be used")
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
	case "**", "^":
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

func call(name string, nodes []ast.Node, params map[string]int64) (*big.Rat, error) {
	fn, ok := functions[name]
	if !ok {
		return nil, fmt.Errorf("function %q is unknown (known: %s)", name, functionNames())
	}
	if len(nodes) == 0 || fn.arity != 0 && len(nodes) != fn.arity {
		return nil, fmt.Errorf("function %s does not take %d arguments", name, len(nodes))
	}
	args := make([]*big.Rat, len(nodes))
	for i, n := range nodes {
		var err error
		if args[i], err = eval(n, params); err != nil {
			return nil, err
		}
	}
	return fn.f(args)
}

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
