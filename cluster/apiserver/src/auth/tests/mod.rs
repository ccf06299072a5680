mod keys;
mod roles;
