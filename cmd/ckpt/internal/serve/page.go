package serve

import (
	"bytes"
	"embed"
	"net/http"
	"path"
	"time"

	"ckpt/internal/figure"
)

// assets are the files of the page that reports do not have, too.
//
//go:embed assets/*.html assets/*.js
var assets embed.FS

// page answers with a file of the page.
func page(w http.ResponseWriter, r *http.Request) {
	name := path.Base(r.URL.Path)
	if r.URL.Path == "/" {
		name = "index.html"
	}
	body, err := assets.ReadFile("assets/" + name)
	if err != nil {
		body, err = figure.Assets.ReadFile("assets/" + name)
	}
	if err != nil || r.URL.Path != "/" && r.URL.Path != "/"+name {
		fail(w, http.StatusNotFound, "there is no such page", "the page is /")
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		fail(w, http.StatusMethodNotAllowed, "the page is only to be read", "use GET")
		return
	}
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(body))
}
