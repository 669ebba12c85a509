-- The server's first start: a role that owns its database, may log in, and is no superuser.
\getenv password OWNER_PASSWORD
CREATE ROLE pgcron_ha LOGIN PASSWORD :'password';
CREATE DATABASE pgcron_ha OWNER pgcron_ha;
