(() => {
  'use strict';
  const root = document.documentElement;
  root.classList.add('script');

  // Colours: the system's, or what was chosen. A page in a file may have no storage.
  const key = 'ondol-report-colours', choices = ['system', 'light', 'dark'];
  const stored = () => { try { return localStorage.getItem(key); } catch { return null; } };
  const store = (choice) => { try { localStorage.setItem(key, choice); } catch { /* not kept */ } };
  const theme = document.getElementById('theme');
  let choice = choices.includes(stored()) ? stored() : 'system';
  const show = () => {
    if (choice === 'system') delete root.dataset.theme; else root.dataset.theme = choice;
    theme.textContent = 'Colours: ' + choice;
  };
  theme.addEventListener('click', () => {
    choice = choices[(choices.indexOf(choice) + 1) % choices.length];
    store(choice);
    show();
  });
  show();

  // Values where the pointer is: the browser's own hint is late, and a touch never shows it.
  const tip = document.getElementById('tip');
  for (const title of document.querySelectorAll('.mark > title')) {
    const mark = title.parentNode;
    mark.setAttribute('data-tip', title.textContent);
    mark.setAttribute('aria-label', title.textContent);
    title.remove();
  }
  const point = (event) => {
    const mark = event.target instanceof Element ? event.target.closest('.mark') : null;
    tip.hidden = !mark;
    if (!mark) return;
    tip.textContent = mark.getAttribute('data-tip');
    const box = tip.getBoundingClientRect();
    const left = Math.min(event.clientX + 14, window.innerWidth - box.width - 8);
    const above = event.clientY - box.height - 12;
    tip.style.left = Math.max(8, left) + 'px';
    tip.style.top = (above > 4 ? above : event.clientY + 18) + 'px';
  };
  document.addEventListener('pointermove', point);
  document.addEventListener('pointerdown', point);
  document.addEventListener('scroll', () => { tip.hidden = true; }, { passive: true });

  // Tables are sorted by numbers where a column has nothing else; what is not there comes last.
  const value = (row, column) => {
    const cell = row.cells[column];
    const text = cell ? cell.textContent.trim() : '-';
    const number = cell && cell.dataset.value !== undefined ? Number(cell.dataset.value) : parseFloat(text.replace(/,/g, ''));
    return { text, number, missing: text === '-' || text === '' };
  };
  for (const table of document.querySelectorAll('table')) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = document.createElement('button');
      button.type = 'button';
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener('click', () => {
        const up = head.getAttribute('aria-sort') !== 'ascending';
        heads.forEach((other) => other.removeAttribute('aria-sort'));
        head.setAttribute('aria-sort', up ? 'ascending' : 'descending');
        const body = table.tBodies[0];
        const rows = [...body.rows].map((row) => ({ row, ...value(row, column) }));
        const numbers = rows.every((one) => one.missing || !Number.isNaN(one.number));
        const order = (a, b) => numbers ? a.number - b.number : a.text.localeCompare(b.text, 'en', { numeric: true });
        rows.sort((a, b) => a.missing - b.missing || (a.missing ? 0 : (up ? 1 : -1) * order(a, b)));
        body.append(...rows.map((one) => one.row));
      });
    });
  }

  // Downloads.
  const save = (name, blob) => {
    const link = document.createElement('a');
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };
  const drawn = (svg, width, height) => {
    const copy = svg.cloneNode(true);
    const make = (name, text) => {
      const made = document.createElementNS(svg.namespaceURI, name);
      made.textContent = text;
      return made;
    };
    for (const mark of copy.querySelectorAll('.mark')) {
      mark.prepend(make('title', mark.getAttribute('data-tip')));
      mark.removeAttribute('data-tip');
      mark.removeAttribute('aria-label');
    }
    const ground = make('rect', '');
    for (const [name, text] of [['width', '100%'], ['height', '100%'], ['fill', '#fff']]) ground.setAttribute(name, text);
    copy.prepend(make('style', document.getElementById('chart-style').textContent), ground);
    if (width) {
      copy.setAttribute('width', width);
      copy.setAttribute('height', height);
    }
    return new Blob([new XMLSerializer().serializeToString(copy)], { type: 'image/svg+xml' });
  };
  const png = (svg, done) => {
    const { width, height } = svg.viewBox.baseVal;
    const scale = 3;
    const image = new Image();
    image.onload = () => {
      const canvas = document.createElement('canvas');
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
      canvas.getContext('2d').drawImage(image, 0, 0, canvas.width, canvas.height);
      URL.revokeObjectURL(image.src);
      canvas.toBlob(done, 'image/png');
    };
    image.src = URL.createObjectURL(drawn(svg, width * scale, height * scale));
  };
  const kinds = {
    SVG: (figure, name) => save(name + '.svg', drawn(figure.querySelector('svg'))),
    PNG: (figure, name) => png(figure.querySelector('svg'), (blob) => save(name + '.png', blob)),
    CSV: (figure, name) => save(name + '.csv', new Blob([figure.querySelector('.csv').textContent.replace(/\n/g, '\r\n')], { type: 'text/csv' })),
  };
  for (const button of document.querySelectorAll('[data-save]')) {
    const figure = button.closest('figure');
    button.addEventListener('click', () => kinds[button.dataset.save](figure, figure.id));
  }
  document.getElementById('save').addEventListener('click', () => {
    const json = JSON.stringify(JSON.parse(document.getElementById('result').textContent), null, 2) + '\n';
    save(document.body.dataset.name + '.json', new Blob([json], { type: 'application/json' }));
  });

  // On paper, which has no pointer, everything is open but the values, which would take more room than the charts.
  document.getElementById('print').addEventListener('click', () => window.print());
  let closed = [];
  window.addEventListener('beforeprint', () => {
    closed = [...document.querySelectorAll('details:not([open], .values)')];
    closed.forEach((details) => { details.open = true; });
  });
  window.addEventListener('afterprint', () => closed.forEach((details) => { details.open = false; }));
})();
