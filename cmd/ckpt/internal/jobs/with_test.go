package jobs

import (
	"maps"
	"strings"
	"testing"
)

func TestOtherJobSettings(t *testing.T) {
	t.Parallel()
	for with, want := range map[string]map[string]string{
		"bt.A.4":                          {"app": "bt.A.4"},
		"bt.A.16,map=8,8,read,start=3s":   {"app": "bt.A.16", "map": "8,8", "read": "true", "start": "3s"},
		"bt.A.16,layout=shared,user=a=b":  {"app": "bt.A.16", "layout": "shared", "user": "a=b"},
		"code.yaml:B,np=4,stripe_size=1M": {"app": "code.yaml:B", "np": "4", "stripe_size": "1M"},
	} {
		got, err := newOtherJob(with).settingsOf()
		if err != nil || !maps.Equal(got, want) {
			t.Errorf("%s: %v, %v", with, got, err)
		}
	}
}

// A setting that is given behind a file replaces that of the file.
func TestOtherJobFile(t *testing.T) {
	t.Parallel()
	o := newOtherJob("other-job.yaml,start=5s")
	got, err := o.parseFile([]byte("app: bt.A.4\nstart: 30\nread: true\nmap: [2, 2]\n"))
	if err != nil {
		t.Fatal(err)
	}
	if err := o.addSettings(got, "start=5s"); err != nil {
		t.Fatal(err)
	}
	if want := (map[string]string{"app": "bt.A.4", "start": "5s", "read": "true", "map": "2,2"}); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got, err := o.parseFile([]byte("name: x\narrays: []\n")); got != nil || err != nil {
		t.Errorf("a workload: %v, %v", got, err)
	}
}

// FuzzOtherJob: no file of --with makes the command fail otherwise than with an error that
// names the flag.
func FuzzOtherJob(f *testing.F) {
	for _, text := range []string{"app: bt.A.4\nstart: 30s", "app: [1, 2]", "{}", "- app", "app: &a bt.A.4\nuser: *a", "arrays: 1", "map: [a]", "app: bt.A.4\nnodes: 1e9"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		o := newOtherJob("other.yaml")
		settings, err := o.parseFile(src)
		for key, value := range settings {
			if e := o.apply(key, value); e != nil {
				err = e
			}
		}
		if err != nil && !strings.HasPrefix(err.Error(), "--with other.yaml: ") {
			t.Errorf("%q: %v", src, err)
		}
	})
}
