"""A function in LLVM's language, line by line."""


class Emitter:
    """Lines, registers and labels. What cannot be reached is not written."""

    def __init__(self) -> None:
        self.lines = list[str]()
        self.is_open = True
        """Whether what is written next can be reached."""
        self._count = 0
        self._used = set[str]()

    def do(self, line: str) -> None:
        """Write an instruction."""
        if not self.is_open:
            self._open(self.label())
        self.lines.append(line)

    def take(self, line: str) -> str:
        """Write an instruction; the register that has its value."""
        self._count += 1
        name = f"%t{self._count}"
        self.do(f"{name} = {line}")
        return name

    def label(self) -> str:
        """A new label."""
        self._count += 1
        return f"l{self._count}"

    def jump(self, label: str) -> None:
        """Go on at a label."""
        if self.is_open:
            self.end(f"br label %{label}")
            self._used.add(label)

    def branch(self, truth: str, yes: str, no: str) -> None:
        """Go on at one of two labels."""
        self.end(f"br i1 {truth}, label %{yes}, label %{no}")
        self._used |= {yes, no}

    def end(self, line: str) -> None:
        """Write an instruction after which nothing follows here."""
        self.do(line)
        self.is_open = False

    def begin(self, label: str) -> None:
        """What follows is at this label."""
        self.jump(label)
        if label in self._used:
            self._open(label)

    def _open(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.is_open = True

    def at(self, pointer: str, offset: int) -> str:
        """Where something lies so many bytes after another."""
        return self.take(f"getelementptr i8, ptr {pointer}, i64 {offset}")

    def read(self, kind: str, pointer: str, offset: int = 0) -> str:
        """Read something that stays as it is while a kernel runs."""
        if offset:
            pointer = self.at(pointer, offset)
        return self.take(f"load {kind}, ptr {pointer}, !invariant.load !0")
