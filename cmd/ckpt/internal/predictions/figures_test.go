package predictions_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"

	"github.com/rogpeppe/go-internal/testscript"

	"ckpt/cmd/ckpt/internal/scripttest"
	"ckpt/predict/eval"
)

// figures checks that the errors that README promises are those in the JSON of
// ckpt predict eval.
//
//	figures FILE
func figures(ts *testscript.TestScript, _ bool, args []string) {
	text, err := os.ReadFile(scripttest.Clone("README.md"))
	ts.Check(err)
	m := regexp.MustCompile(`For (\d+) measured data zones the median error is ([0-9.]+) % and the largest ([0-9.]+) %`).FindStringSubmatch(string(text))
	if m == nil {
		ts.Fatalf("the README has no errors of predictions")
	}
	var ev eval.Evaluation
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &ev))
	for _, q := range ev.Summary.Quantities {
		if q.Quantity != "data" {
			continue
		}
		want := []string{fmt.Sprint(q.Rows), fmt.Sprintf("%.2f", 100*q.OurMedianAll), fmt.Sprintf("%.2f", 100*q.OurMaxAll)}
		if got := m[1:]; fmt.Sprint(got) != fmt.Sprint(want) {
			ts.Fatalf("the README says %v, predict eval %v", got, want)
		}
		return
	}
	ts.Fatalf("predict eval has no data zones")
}
