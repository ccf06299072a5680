"""Takes the place of bcrypt in ceph-mgr, whose modules run in interpreters of their own: the real one cannot be loaded
there (it is written with PyO3), and every module imports it for the passwords of the dashboard, which is not in this image."""


def __getattr__(name):
    raise AttributeError(f"bcrypt.{name}: not in this image, there is no dashboard")
