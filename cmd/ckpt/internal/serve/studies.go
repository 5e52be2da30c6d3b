package serve

import (
	"io/fs"
	"net/http"
	"path/filepath"
	"time"

	"ckpt/cmd/ckpt/internal/study"
	"ckpt/cmd/ckpt/internal/ui"
)

// A studyFile is a study in the directory of --studies.
type studyFile struct {
	Name     string    `json:"study"` // the path of its directory
	Title    string    `json:"title"`
	Modified time.Time `json:"modified"`
	Reason   string    `json:"reason,omitempty"` // why it cannot be shown
}

// mostStudies bounds the list of studies: the page of each is read for its title.
const mostStudies = 200

// listStudies lists the studies in the directory of --studies, those in it below, too.
func (s *server) listStudies(w http.ResponseWriter, r *http.Request) {
	list := []studyFile{}
	err := s.studies.walk(r.Context(), func(path, name string, fi fs.FileInfo) bool {
		if filepath.Base(name) != study.PageFile {
			return true
		}
		line := studyFile{Name: filepath.Dir(name), Modified: fi.ModTime().UTC()}
		if p, err := study.ReadPage(path); err == nil {
			line.Title = p.Title
		} else {
			line.Reason = ui.OneLine(err.Error())
		}
		list = append(list, line)
		return len(list) < mostStudies
	})
	if err != nil {
		problemOf(ui.SourceError(err), nil).write(w)
		return
	}
	respond(w, http.StatusOK, list)
}

// studyParameters are what a request for a study has in its query.
var studyParameters = map[string]string{"study": "The path of the study in the directory of --studies."}

// showStudy answers with what a study says: texts, tables and charts, section by section.
func (s *server) showStudy(w http.ResponseWriter, r *http.Request) {
	path, err := s.studies.find(r.Context(), filepath.Join(r.URL.Query().Get("study"), study.PageFile))
	var p *study.Page
	if err == nil {
		p, err = study.ReadPage(path)
	}
	if err != nil {
		problemOf(err, nil).write(w)
		return
	}
	respond(w, http.StatusOK, p)
}
