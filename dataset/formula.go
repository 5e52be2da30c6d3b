package dataset

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"text/scanner"
)

// A formula computes the value of a parsed expression.
type formula func(params map[string]int64) (*big.Rat, error)

// operators by how tightly they bind; the sign of a number lies between * and **.
var operators = map[string]int{"+": 1, "-": 1, "*": 2, "/": 2, "%": 2, "^": 4, "**": 4}

const sign = 3

// A formulaParser reads a formula, one token ahead.
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
