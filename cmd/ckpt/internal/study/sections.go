package study

import (
	"strconv"
)

// A section of the page: what a few steps say.
type section struct {
	Phase, Title string
	Text         []string
	Facts        []fact
	Findings     []fact // of the analysis, with advice
	Tables       []table
	Pictures     []picture
	Commands     []string
}

// A table of the page. The heads of columns of numbers begin with |.
type table struct {
	Head []string
	Rows [][]string
	Note string
}

// sections are those of the page, in the order of the thesis.
func (r *Result) sections() ([]section, error) {
	var list []section
	for _, of := range []func() (section, error){r.smallRuns, r.access, r.stored, r.model, r.predicted, r.planned, r.protected} {
		sec, err := of()
		if err != nil {
			return nil, err
		}
		if len(sec.Facts)+len(sec.Tables)+len(sec.Pictures)+len(sec.Text) > 0 {
			list = append(list, sec)
		}
	}
	return list, nil
}

// commands returns the command lines of steps that ran.
func (r *Result) commands(names ...string) (list []string) {
	for _, name := range names {
		for _, s := range r.Steps {
			if s.Name == name && s.Failure == "" {
				list = append(list, s.Command)
			}
		}
	}
	return list
}

// each returns the names of the steps that a prefix has, one for each small run.
func (r *Result) each(prefix string) (names []string) {
	for i := range r.Runs {
		names = append(names, prefix+strconv.Itoa(r.Runs[i].NP))
	}
	return names
}

// mpi returns the MPI library of the target.
func (r *Result) mpi() string {
	if name, err := r.study.value("size", "mpi"); err == nil {
		return name
	}
	return r.study.mpi()
}

// runName returns the name of the small run on np ranks.
func (r *Result) runName(np int) string {
	for i := range r.Runs {
		if r.Runs[i].NP == np {
			return r.Runs[i].Name
		}
	}
	return ""
}
