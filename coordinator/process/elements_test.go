package process_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"ckpt/zones"
)

// TestElements: programs name every type of elements by the number that images have.
func TestElements(t *testing.T) {
	for file, format := range map[string]string{"client/c/ckpt.h": "#define CKPT_%s %d", "client/fortran/ckpt.f90": "CKPT_%s = %d"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range zones.Elems() {
			if want := fmt.Sprintf(format, strings.ToUpper(e.String()), uint8(e)); !strings.Contains(string(text), want) {
				t.Errorf("%s lacks %s", file, want)
			}
		}
	}
}
